"""Token ids of words that were seen before.

Tokenizers treat every word alone, and normalise and cut each anew: a pair of 80 tokens costs BERT's 150 us of processor
time, most of that for Unicode normalisation and for the look-ups of a greedy match. Remembered, the same pair costs 18
us. A byte-level BPE's takes 1.1 us per token, and a fifth of that remembered (docs/cost.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from tokenizers import Tokenizer

from consumer.word_cuts import Cut, cut_for

_MOST_WORDS = 50_000
"""Then all are forgotten: 10 to 15 MB. English prose has so many distinct ones in a few hundred thousand words."""
_PROBES = (
    "Plain prose, with 1,234.5 numbers; and  two spaces ",
    " \u00c5ngstr\u00f6m na\u00efve cafe\u0301 \u0301mark I\u0307stanbul \u039f\u0394\u039f\u03a3 stra\u00dfe",
    "tab\there\nline\r\u2028\u00a0no\u200bbreak \0nul\x07 \ufeffend",
    "\u6771\u4eac tower\u6771\u4eac\uff0c \u0645\u0631\u062d\u0628\u0627 \U0001f469\u200d\U0001f52c x\U0001f600y",
    "[CLS] [SEP] [MASK] [sep]## ##s it's e-mail@example.org " + "long" * 40,
    "I'll, we'VE 's 't x 12 1234567 8a 9. \n two\n\nthree \r\n .\n . (a) !? \t e\u0301\u0323 \u1100\u1161",
    "<|im_end|> <s> </s> a<think> b <think>c",
)
_LONGEST_KEPT = 24
"""Characters and tokens. Longer words, such as addresses and numbers, hardly come again."""


class WordTokens:
    """Encodes texts by their words. Used from one thread at a time."""

    def __init__(self, tokenizer: Tokenizer, cut: Cut) -> None:
        self._tokenizer = tokenizer
        self._cut = cut
        self._ids: dict[str, tuple[int, ...]] = {}

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """None for a tokenizer of another kind.

        And for one that does otherwise than releases before it: both ways are compared on texts of every kind.
        """
        cut = cut_for(tokenizer)
        if cut is None:
            return None
        words = cls(tokenizer, cut)
        whole = tokenizer.encode_batch_fast(list(_PROBES), add_special_tokens=False)
        return words if words.encode(_PROBES) == [one.ids for one in whole] else None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without special tokens."""
        known = self._ids
        split = list(map(self._cut, texts))
        unknown = list(set().union(*split).difference(known))
        if unknown:
            encoded = self._tokenizer.encode_batch_fast(unknown, add_special_tokens=False)
            known.update((word, tuple(one.ids)) for word, one in zip(unknown, encoded, strict=True))
        ids = [_joined(map(known.__getitem__, words)) for words in split]
        for word in unknown:
            if max(len(word), len(known[word])) > _LONGEST_KEPT:
                del known[word]
        # At once, because one text may have more of them than are to be kept until the next one comes.
        if len(known) > _MOST_WORDS:
            known.clear()
        return ids


def _joined(parts: Iterable[tuple[int, ...]]) -> list[int]:
    ids: list[int] = []
    for part in parts:
        ids += part
    return ids
