"""Activations in float32: exact at the edges, ordered, and NaN where there is no answer."""

import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from consumer.numbers import cosines, sigmoid, softmax, unit

rows = arrays(np.float32, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=st.floats(-88, 88, width=32))


@given(rows)
def test_sigmoid_is_that_of_double_precision_and_keeps_the_order(logits: np.ndarray):
    found = sigmoid(logits)
    assert found.dtype == np.float32
    exact = [1 / (1 + math.exp(-number)) for number in logits.ravel().tolist()]
    np.testing.assert_allclose(found.ravel(), exact, rtol=1e-6)
    order = np.argsort(logits, axis=None)
    assert (np.diff(found.ravel()[order]) >= 0).all()


def test_sigmoid_does_not_overflow():
    assert sigmoid(np.array([-1000, 1000, np.nan], np.float32)).tolist()[:2] == [0, 1]


@given(rows)
def test_softmax_sums_to_one(logits: np.ndarray):
    found = softmax(logits)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_what_is_not_a_number_stays_so():
    assert np.isnan(softmax(np.array([np.inf, 0], np.float32))).any()
    assert np.isnan(unit(np.array([[0, 0], [np.nan, 1], [np.inf, 1]], np.float32))).any(axis=1).all()


@given(rows)
@example(np.array([[1.4237384e-21]], np.float32)).via("its square is too small for float32")
@example(np.array([[3e38, -3e38]], np.float32)).via("its squares are too large for float32")
def test_a_cosine_is_between_minus_one_and_one(vectors: np.ndarray):
    found = cosines(vectors[0], vectors)
    assert found.dtype == np.float32
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if lengths[0] > 0:
        assert (np.abs(found[lengths > 0]) <= 1).all()
        assert found[0] > 1 - 1e-6
    assert np.isnan(found[lengths == 0]).all()
