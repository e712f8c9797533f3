"""JSON that is nested deeper than any parser follows, so that the rest of it can still be read.

A parser that calls itself for each level gives up at some hundred of them. This one has no such limit, and its time
grows with the length of the text alone.
"""

import re
from collections.abc import Callable

LEVELS = 100
"""So many are parsed at a time: more than the contract allows, fewer than any parser follows."""

# A string that is not closed is one token, too: looked for from each of its quotes, it would cost quadratic time.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


class CutOff(ValueError):
    """An array or object is not closed."""


def flattened(text: str, parse: Callable[[str], object]) -> str:
    """The same value with 0 in place of each array and object on level 100: as much JSON as the text is.

    `parse` gets what is left out, piece by piece, none of them deeper than 100 levels, and raises what it wants to.
    Raises CutOff.
    """
    pieces: list[str] = []
    opened: list[int] = []  # of each open array or object the first of its pieces
    written = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            pieces.append(text[written : token.start()])
            written = token.start()
            opened.append(len(pieces))
        elif token[0] in "]}" and opened:
            if len(opened) % LEVELS == 0:
                pieces.append(text[written : token.end()])
                written = token.end()
                parse("".join(pieces[opened[-1] :]))
                pieces[opened[-1] :] = "0"
            opened.pop()
    if opened:
        raise CutOff
    return "".join((*pieces, text[written:]))
