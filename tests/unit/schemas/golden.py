"""Where the golden messages are."""

from pathlib import Path

GOLDEN = Path(__file__).parents[3] / "schemas" / "examples" / "v1"


def golden_bytes(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()
