"""Token ids of words that were seen before.

BERT's tokenizer treats every word alone, and remembers none: a pair of 80 tokens costs it 150 us of processor time,
most of that for Unicode normalisation and for the look-ups of a greedy match. Remembered, the same pair costs 18 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

_MOST_WORDS = 50_000
"""Then all are forgotten: 10 to 15 MB. English prose has so many distinct ones in a few hundred thousand words."""
_PROBES = (
    "Plain prose, with 1,234.5 numbers; and  two spaces ",
    " \u00c5ngstr\u00f6m na\u00efve cafe\u0301 \u0301mark I\u0307stanbul \u039f\u0394\u039f\u03a3 stra\u00dfe",
    "tab\there\nline\r\u2028\u00a0no\u200bbreak \0nul\x07 \ufeffend",
    "\u6771\u4eac tower\u6771\u4eac\uff0c \u0645\u0631\u062d\u0628\u0627 \U0001f469\u200d\U0001f52c x\U0001f600y",
    "[CLS] [SEP] [MASK] [sep]## ##s it's e-mail@example.org " + "long" * 40,
)
_LONGEST_KEPT_CHARACTERS = 24
"""Longer ones, such as addresses and numbers, hardly come again."""


def treats_words_alone(tokenizer: Tokenizer) -> bool:
    """Whether a text's ids are those of the pieces between its spaces, one after the other.

    Read in tokenizers 0.23: what BERT's normaliser does is done character by character, save the canonical order of
    combining marks, which a space ends; and its pre-tokenizer cuts at every space. An added token may have a space in
    it; where control tokens in a text are text, only one that is not special is looked for. Another release may do
    otherwise, so both ways are compared on texts of every such kind.
    """
    of_this_kind = (
        isinstance(tokenizer.normalizer, BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and isinstance(tokenizer.model, WordPiece)
        and tokenizer.encode_special_tokens
        and all(token.special for token in tokenizer.get_added_tokens_decoder().values())
    )
    if not of_this_kind:
        return False
    whole = tokenizer.encode_batch_fast(list(_PROBES), add_special_tokens=False)
    return WordTokens(tokenizer).encode(_PROBES) == [one.ids for one in whole]


class WordTokens:
    """Encodes texts for a tokenizer that treats words alone. Used from one thread at a time."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: dict[str, tuple[int, ...]] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without special tokens."""
        known = self._ids
        # Other white space ends words, too, but some of it is removed first, and what stood beside it is one word.
        split = [text.split(" ") for text in texts]
        unknown = [word for word in set().union(*split) if word not in known]
        if unknown:
            encoded = self._tokenizer.encode_batch_fast(unknown, add_special_tokens=False)
            known.update((word, tuple(one.ids)) for word, one in zip(unknown, encoded, strict=True))
        ids = [list(chain.from_iterable(map(known.__getitem__, words))) for words in split]
        for word in unknown:
            if len(word) > _LONGEST_KEPT_CHARACTERS:
                del known[word]
        # At once, because one text may have more of them than are to be kept until the next one comes.
        if len(known) > _MOST_WORDS:
            known.clear()
        return ids
