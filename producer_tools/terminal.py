"""Text from elsewhere on a terminal: shown, never obeyed.

An id, a document or a broker's message may hold what a terminal takes for commands (ESC sequences, C1 controls), or
what shows a line in another order than it has (bidi marks), or breaks it. In a pipe such text stays as it is: data.
"""

from __future__ import annotations

import re
import unicodedata
from typing import IO

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode: controls, formats (bidi marks, zero widths, tags), lone surrogates, ends of lines."""
_SHOWN_AS_IT_IS = re.compile(r"[\x20-\x7e]*")


def visible(text: str, kept: str = "") -> str:
    r"""With JSON's escapes, as \u001b, for all that a terminal could obey; `kept`: characters that stay.

    A line of JSON remains one, and means the same.
    """
    if _SHOWN_AS_IT_IS.fullmatch(text):
        return text
    return "".join(
        _escaped(character) if unicodedata.category(character) in _OBEYED and character not in kept else character
        for character in text
    )


def for_stream(text: str, stream: IO[str], kept: str = "\n\t") -> str:
    """`text` as it is to be written there; line ends and tabs are ours, unless told otherwise."""
    return visible(text, kept) if stream.isatty() else text


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
