"""Without kcat none of these tests says anything."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _as_a_stranger(kcat: str) -> None:
    """The fixture `kcat` skips where it is not installed, and fails in CI."""
