"""How a late-interaction model wants its queries and documents, as its files say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Everything that is a token here is an entry of the model's vocabulary.

    `query_marker`, `document_marker`: the token behind the first special one; empty for none. `query_tokens`: the most
    of a query, special tokens and marker included. `filling`: the token that queries are filled up with to that
    length; None where they are not. `skipped`: tokens of a document whose vectors do not count.
    """

    query_marker: str
    document_marker: str
    query_tokens: int
    filling: str | None
    skipped: tuple[str, ...]
