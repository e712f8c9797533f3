"""Which keys of Redis a prefix of results can reach, and where the claims of prefixes stand. Pure.

The key of a result is the prefix and the request's id, and an id may be any text without control characters. So what
requests can write are keys that begin with the prefix, and two laws keep everything apart, whatever the ids are:

- No prefix reaches a key of our own. All of these begin with `scorestream:`, and a prefix that begins with that, or
  that is a beginning of it (`""`, `s`, `scorestream`), is refused.
- No two prefixes reach one key. Where neither is a beginning of the other, they differ at some character, and so do
  all their keys; a prefix that begins another claimed one, or is begun by it, is refused.

A message to waiters goes to the channel of the key's name, so the same holds for channels. On a cluster the hash tag in
an id chooses who holds the key; it does not change which key it is.
"""

from __future__ import annotations

import shlex
import unicodedata

NAMESPACE = "scorestream:"
"""What all keys but results begin with."""
CLAIMS_KEY = f"{NAMESPACE}prefixes"
"""A hash: a field is a prefix, its value is who claims it and since when."""


def owner_key(prefix: str) -> str:
    """Where version 0.1 claims a prefix, and the only place where it looks."""
    return f"{NAMESPACE}owner:{prefix}"


def overlap(one: str, other: str) -> bool:
    """Whether a request under one prefix can have the key of a request under the other."""
    return one.startswith(other) or other.startswith(one)


def why_unfit(prefix: str) -> tuple[str, str] | None:
    """What is wrong with a prefix, and what to do; None where nothing is."""
    if overlap(prefix, NAMESPACE):
        return (
            f"under {prefix!r} a request's id could be the key of a claim",
            f"set one that neither begins with {NAMESPACE} nor is a beginning of it, such as score:",
        )
    if any(unicodedata.category(character) == "Cc" for character in prefix):
        return f"{prefix!r} has control characters", "set one without"
    return None


def deletion(prefix: str) -> str:
    """The commands that take a claim away."""
    quoted = shlex.quote(prefix)
    return f"redis-cli HDEL {CLAIMS_KEY} {quoted}; redis-cli DEL {NAMESPACE}owner:{quoted}"
