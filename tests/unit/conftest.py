"""Fixtures of more than one file."""

import pytest

from tests.unit.observed import Observed


@pytest.fixture
def observed() -> Observed:
    """A worker that runs."""
    return Observed()
