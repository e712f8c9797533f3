"""Queries and documents of a late-interaction model as token ids, and which of their vectors count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from consumer.errors import SettingsInvalid
from consumer.model.token_vectors import TokenVectors
from consumer.records import TokenSequence


@dataclass(frozen=True, slots=True)
class VectorLayout:
    """Ids = those of a head, of the text, and of `tail`; a query's are then filled up, if they are, with `filling`."""

    query_head: list[int]
    document_head: list[int]
    tail: list[int]
    query_tokens: int
    filling: int | None
    skipped: frozenset[int]

    @classmethod
    def learn(cls, tokenizer: Tokenizer, vectors: TokenVectors, prefix: Sequence[int], suffix: Sequence[int]) -> Self:
        """`prefix`, `suffix`: the special tokens around one text.

        Raises SettingsInvalid for a marker that is not in the vocabulary, or that has no place.
        """

        def head(marker: str) -> list[int]:
            if not marker:
                return list(prefix)
            if not prefix:
                raise SettingsInvalid(
                    "engine.model: its tokenizer puts no token before a text, where a marker could be"
                )
            return [*prefix[:1], _id(tokenizer, marker), *prefix[1:]]

        known = [tokenizer.token_to_id(token) for token in vectors.skipped]
        return cls(
            query_head=head(vectors.query_marker),
            document_head=head(vectors.document_marker),
            tail=list(suffix),
            query_tokens=vectors.query_tokens,
            filling=None if vectors.filling is None else _id(tokenizer, vectors.filling),
            skipped=frozenset(one for one in known if one is not None),
        )

    def query(self, ids: list[int]) -> TokenSequence:
        """A query's sequence, marked and filled up. Raises ValueError when it is too long: a query is never cut."""
        whole = self.query_head + ids + self.tail
        if len(whole) > self.query_tokens:
            raise ValueError(f"the query has {len(whole)} tokens, the model takes {self.query_tokens}")
        filling = [] if self.filling is None else [self.filling] * (self.query_tokens - len(whole))
        return TokenSequence(whole + filling)

    def document(self, ids: list[int], max_tokens: int) -> TokenSequence:
        """A document's sequence, marked, cut at the right to `max_tokens` in all."""
        room = max(0, max_tokens - len(self.document_head) - len(self.tail))
        return TokenSequence(self.document_head + ids[:room] + self.tail, truncated=len(ids) > room)

    def counted(self, ids: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which vectors of a document count, [tokens]."""
        return np.array([one not in self.skipped for one in ids], dtype=np.bool_)


def _id(tokenizer: Tokenizer, token: str) -> int:
    found: int | None = tokenizer.token_to_id(token)
    if found is None:
        raise SettingsInvalid(f"engine.model: its files name the token {token!r}, which its vocabulary does not have")
    return found
