r"""Where a text may be cut so that its token ids are those of its pieces, one after the other.

Two families of tokenizers, as read in tokenizers 0.23. What is not surely of one of them is not cut.

**BERT's.** What its normaliser does is done character by character, save the canonical order of combining marks, which
a space ends; and its pre-tokenizer cuts at every space.

**Byte-level BPE** (GPT-2, Qwen, Llama 3, ModernBERT). Its regular expression cuts a text into pieces, and each is
encoded alone; a word's piece takes the space before it along. Here a text is cut before every space that follows a
character that is no white space. Such a space is the first of its piece: in each alternative known here, a space is
either the first character of a match, or all of the match is white space. And what stands before it has the same pieces
without it: nothing looks behind, and the one look-ahead, `\s+(?!\S)`, looks past white space only. NFC joins nothing to
what stands before a space, and moves no mark across one.

An added token is searched for in the whole text, so none may reach across a cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import NFC, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

Cut = Callable[[str], list[str]]
"""A text to the pieces of it that are encoded alone."""

_LETTERS = (
    *(r"\p{L}+", r"[\p{L}\p{M}]+"),
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
)
_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_ALTERNATIVES = (
    *(_CONTRACTIONS, f"(?i:{_CONTRACTIONS})"),
    *(r"[^\r\n\p{L}\p{N}]?" + letters + end for letters in _LETTERS for end in ("", f"(?i:{_CONTRACTIONS})?")),
    *(r" ?\p{L}+", r" ?\p{N}+", r"\p{N}", r"\p{N}{1,3}"),
    *(r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{M}\p{N}]+"),
    *(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]+[\r\n/]*"),
    *(r"\s*[\r\n]+", r"\s+(?!\S)"),
)
_WHITE_SPACE = r"\s+"
"""Last in every pattern: otherwise white space might be left over between two matches, and not be cut off."""
_KNOWN_PATTERN = re.compile(f"(?:(?:{'|'.join(map(re.escape, _ALTERNATIVES))})[|])*{re.escape(_WHITE_SPACE)}")

_PIECE = re.compile(r"\s*\S++(?:[^\S ]\s*+\S*+)*+|\s++")
_ACROSS_A_CUT = re.compile(r"\S ")


def cut_for(tokenizer: Tokenizer) -> Cut | None:
    """How to cut a text for this tokenizer; None where that is not known. A control token in a text must be text."""
    if not tokenizer.encode_special_tokens:
        return None
    added = tokenizer.get_added_tokens_decoder().values()
    if _is_bert(tokenizer):
        return _at_spaces if all(token.special for token in added) else None
    if _is_byte_level(tokenizer):
        return _before_spaces if not any(map(_reaches_across, added)) else None
    return None


def _is_bert(tokenizer: Tokenizer) -> bool:
    return (
        isinstance(tokenizer.normalizer, BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and isinstance(tokenizer.model, WordPiece)
    )


def _is_byte_level(tokenizer: Tokenizer) -> bool:
    """Dropout encodes the same piece another way each time."""
    normalizer, pre_tokenizer, model = tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model
    if not (normalizer is None or isinstance(normalizer, NFC)) or not isinstance(model, BPE) or model.dropout:
        return False
    # Only its serialised form tells a pre-tokenizer's parts.
    match json.loads(pre_tokenizer.__getstate__()) if pre_tokenizer else None:
        case {"type": "ByteLevel", "use_regex": True}:
            return True
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "use_regex": False},
            ],
        }:
            return _KNOWN_PATTERN.fullmatch(pattern) is not None
    return False


def _reaches_across(token: AddedToken) -> bool:
    """Whether a text can hold a cut within the token, or one that it looks or takes spaces across."""
    return token.rstrip or token.single_word or _ACROSS_A_CUT.search(token.content) is not None


def _at_spaces(text: str) -> list[str]:
    """Other white space ends words, too, but some of it is removed first, and what stood beside it is one word."""
    return text.split(" ")


def _before_spaces(text: str) -> list[str]:
    """Python's white space is all of the tokenizer's, and four control characters more."""
    # Most texts are one line with single spaces. It has no newline, and so one can mark the cuts: half the time.
    if text.isprintable() and "  " not in text:
        return text.replace(" ", "\n ").split("\n")
    return _PIECE.findall(text)
