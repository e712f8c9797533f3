"""Fixtures of more than one file."""

import pytest

from tests.unit.observed import Observed


@pytest.fixture
def observed() -> Observed:
    """A worker that runs."""
    return Observed()


@pytest.fixture
def weights_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """For folders with the files that a test is about, and no weights worth the name."""
    monkeypatch.setattr("consumer.model.weights.check_weights", lambda *_: None)
