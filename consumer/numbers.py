"""Activations and distances in float32, whatever the engine computed in.

A sigmoid in bfloat16 is exactly 1.0 from a logit of 6.5 on; ranking by it would be ranking by position.
"""

import numpy as np
import numpy.typing as npt

# What is not a number is this module's answer, not its accident: callers look for it.
_quiet = np.errstate(invalid="ignore", over="ignore")

Float32s = npt.NDArray[np.float32]


def sigmoid(logits: Float32s) -> Float32s:
    """Element by element; never overflows."""
    decay = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, np.float32(1), decay) / (1 + decay), dtype=np.float32)


@_quiet
def softmax(logits: Float32s) -> Float32s:
    """Over the last axis; never overflows. Not a number where an infinity is among them."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float32)


@_quiet
def unit(vectors: Float32s) -> Float32s:
    """Each vector of the last axis at length 1; a vector without a length becomes NaN, so that it is refused."""
    # In float32 the squares of small numbers are nothing, and those of large ones infinite.
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0)
    return np.asarray(vectors / np.where(usable, lengths, np.nan), dtype=np.float32)


@_quiet
def cosines(query: Float32s, documents: Float32s) -> Float32s:
    """Cosine of the angle between one vector [n] and each of several [m, n]; NaN for a vector without a length."""
    # A sum per row, not a matrix product: a score must not depend on how many documents stand beside it.
    products = (unit(documents) * unit(query)).sum(axis=-1)
    return np.asarray(np.clip(products, -1, 1), dtype=np.float32)


@_quiet
def maxsim(query: Float32s, document: Float32s) -> np.float32:
    """Of vectors of length 1, [m, n] and [k, n]: the sum over the query's of the largest cosine with the document's."""
    return np.float32((query @ document.T).max(axis=1).sum())
