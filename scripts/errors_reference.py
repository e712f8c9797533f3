"""Write docs/errors.md from the error codes, or with --check fail when it differs."""

import sys
from pathlib import Path

from schemas.errors import ErrorCode

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"
HEAD = """# Error codes

Generated from `schemas/errors.py` by `make docs`; do not edit.

A request that has no score is answered with `status: error` and an `error` that has `code`, a `message` for people, and
`retryable`. An item of a request that has no score has an `error` of its own, and the others are scored. Codes are
added, never changed: accept those that you do not know.

*Dead letter*: whether the original of a refused request goes to the dead-letter topic ([what to do with
them](dead-letters.md)); items never do. *Retryable*: whether the same bytes may be answered later.

| code | when | what to do | dead letter | retryable |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page as Markdown."""
    return HEAD + "".join(map(_row, ErrorCode))


def _row(code: ErrorCode) -> str:
    dead_letter, retryable = ("yes" if so else "no" for so in (code.dead_letter, code.retryable))
    return f"| {' | '.join((f'`{code}`', *code.explanation, dead_letter, retryable))} |\n"


def main() -> int:
    """0 when the page is as generated."""
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != text:
            print(f"{PAGE.name} is not what the codes say: run `make docs`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
