"""A decoder reranker's prompt as token ids: what is the same for all documents of a request is tokenised once.

Which ids are right is defined by the whole prompt: it is split at its control tokens, and each text between two of them
goes through the tokenizer in one piece, query and document inside. Byte pairs merge across the places where texts were
put together, so a document's ids depend on what stands beside it. The prompt is cut near the document only where that
is shown, at start, to change nothing: no entry of the vocabulary spans the cut, and texts of all kinds beside it come
out equal. Where there is no such place, the document is tokenised with all the text around it.

Control tokens in a user's text are text, those of the prompt that the tokenizer does not call special included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Self

from tokenizers import AddedToken, Tokenizer

from consumer.errors import SettingsInvalid
from consumer.model.template import DOCUMENT, INSTRUCTION, PLACEHOLDER, QUERY, Template

_BESIDE = (
    *("a", "Z", "9", "\u00e9", "e\u0301", "\u6771\u4eac", "\U0001f600", "\u0627", "\u0e01", "\u200d", "\ufeff"),
    *(" ", "  ", " a", "a ", "\n", "\n\n", " \n", "\n ", "\t", "\u00a0", "\u3000", "\r\n"),
    *(".", "...", ":", " :", ":\n", "(", ")", "<", "|", ">", "'s", "' ", '"', "-", "_", "\u2581", "\u0301", "\0", "1 "),
)
"""What may stand beside a cut: one of each kind that a tokenizer's rules tell apart, and their combinations."""
_Part = tuple[str, int | None]
"""A control token and its id, or a text of the template and None."""
_NEUTRAL = {INSTRUCTION: "one two", QUERY: "three", DOCUMENT: "four five"}


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """Ids = those of `head` for instruction and query, then of lead + document + trail, then `suffix_ids`.

    `head`: ids of what never changes, and texts that hold placeholders. `lead`, `trail`: what of the template is
    tokenised with the document; `lead` may hold the query's placeholder, where there is no cut between the two.
    """

    head: tuple[list[int] | str, ...]
    lead: str
    trail: str
    suffix_ids: list[int]
    takes_instruction: bool
    tokenizer: Tokenizer

    @classmethod
    def learn(cls, tokenizer: Tokenizer, template: Template) -> Self:
        """Find the control tokens and the cuts, and check the whole against the tokenizer's own encoding.

        Changes the tokenizer: the prompt's control tokens become special, so that they are text in a user's text.
        Raises SettingsInvalid for answers that are no tokens, and for a tokenizer that is not of that form.
        """
        _check_answers(tokenizer, template)
        parts = list(_parts(template.text, _control_tokens(tokenizer, template.text)))
        tokenizer.encode_special_tokens = False
        expected = _encode(tokenizer, PLACEHOLDER.sub(lambda found: _NEUTRAL[found.group()], template.text))
        tokenizer.add_special_tokens(
            [AddedToken(part, special=True, normalized=False) for part, token_id in parts if token_id is not None]
        )
        tokenizer.encode_special_tokens = True
        vocabulary = _Vocabulary(tokenizer)
        at = next(index for index, (part, _) in enumerate(parts) if DOCUMENT in part)
        before, after = parts[at][0].split(DOCUMENT)
        left, right = vocabulary.last_cut(before), vocabulary.first_cut(after)
        layout = cls(
            head=tuple(_resolved(tokenizer, [*parts[:at], (before[:left], None)])),
            lead=before[left:],
            trail=after[:right],
            suffix_ids=_joined(_resolved(tokenizer, [(after[right:], None), *parts[at + 1 :]])),
            takes_instruction=template.takes_instruction,
            tokenizer=tokenizer,
        )
        if layout.whole(*(_NEUTRAL[name] for name in (INSTRUCTION, QUERY, DOCUMENT))) != expected:
            raise SettingsInvalid("engine.reranker.template: this model's tokenizer does not split at control tokens")
        return layout

    @property
    def own_ids(self) -> list[int]:
        """Those of the prompt that are the same whatever it is about."""
        return _joined(self.head) + self.suffix_ids

    def head_texts(self, instruction: str, query: str) -> list[str]:
        """What is to be tokenised once per request."""
        return [_filled(part, instruction, query) for part in self.head if isinstance(part, str)]

    def head_ids(self, texts: Sequence[list[int]]) -> list[int]:
        """The ids with which every prompt of a request begins; `texts`: ids of each of head_texts()."""
        remaining = iter(texts)
        return _joined(next(remaining) if isinstance(part, str) else part for part in self.head)

    def document_text(self, instruction: str, query: str, document: str) -> str:
        """What is to be tokenised for one document."""
        return _filled(self.lead, instruction, query) + document + self.trail

    def own_tokens(self, instruction: str, query: str, ids: Sequence[int]) -> tuple[int, int]:
        """How many of a document's ids are the template's: straight before and straight after it."""
        lead = _encode(self.tokenizer, _filled(self.lead, instruction, query))
        pairs = enumerate(zip(lead, ids, strict=False))
        shared = next((at for at, (own, found) in pairs if own != found), min(len(lead), len(ids)))
        return shared, len(_encode(self.tokenizer, self.trail))

    def cut(self, instruction: str, query: str, document: str, max_tokens: int) -> list[int]:
        """Ids of lead, a beginning of the document and trail: at most `max_tokens`, cut between the document's tokens.

        Empty when not one of its tokens fits.
        """
        lead = _filled(self.lead, instruction, query)
        encoded = self.tokenizer.encode(lead + document, add_special_tokens=False)
        if not self.trail:
            return list(encoded.ids[:max_tokens])
        # The document's last token may be another one before the trail, so a beginning is tried out, not computed.
        for _, end in reversed(encoded.offsets[:max_tokens]):
            if end <= len(lead):
                break
            ids = _encode(self.tokenizer, lead + document[: end - len(lead)] + self.trail)
            if len(ids) <= max_tokens:
                return ids
        return []

    def whole(self, instruction: str, query: str, document: str) -> list[int]:
        """The ids of one prompt, whatever its length."""
        texts = [_encode(self.tokenizer, text) for text in self.head_texts(instruction, query)]
        own = _encode(self.tokenizer, self.document_text(instruction, query, document))
        return self.head_ids(texts) + own + self.suffix_ids


class _Vocabulary:
    """Where a text of the template may be cut."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        ids = [[one] for one in range(tokenizer.get_vocab_size(with_added_tokens=True))]
        self._entries: list[str] = tokenizer.decode_batch(ids, skip_special_tokens=False)

    def last_cut(self, text: str) -> int:
        """The last place at which the text before a document may be cut; 0 where there is none."""
        start = max((found.end() for found in PLACEHOLDER.finditer(text)), default=0)
        literal = text[start:]
        return next((start + at for at in range(len(literal) - 1, 0, -1) if self._independent(literal, at)), 0)

    def first_cut(self, text: str) -> int:
        """The first place at which the text after a document may be cut; its length where there is none."""
        return next((at for at in range(1, len(text)) if self._independent(text, at)), len(text))

    def _independent(self, literal: str, at: int) -> bool:
        """Whether left and right of the cut come out as if they stood together, whatever is beside the literal."""
        pair = literal[at - 1 : at + 1]
        if any(pair in entry for entry in self._entries):
            return False
        left, right = literal[:at], literal[at:]
        lefts = self._encode([beside + left for beside in _BESIDE])
        rights = self._encode([right + beside for beside in _BESIDE])
        wholes = self._encode([a + literal + b for a, b in product(_BESIDE, _BESIDE)])
        return all(whole == a + b for whole, (a, b) in zip(wholes, product(lefts, rights), strict=True))

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def _check_answers(tokenizer: Tokenizer, template: Template) -> None:
    for token in template.answer_tokens:
        if tokenizer.token_to_id(token) is None:
            pieces = " and ".join(map(repr, tokenizer.encode(token, add_special_tokens=False).tokens))
            raise SettingsInvalid(
                f"engine.reranker: {token!r} is not one token of this model, its tokenizer makes {pieces} of it; "
                "set relevant_token and irrelevant_token to entries of its vocabulary"
            )


def _control_tokens(tokenizer: Tokenizer, text: str) -> dict[str, int]:
    """The added tokens that stand in the template, and their ids. Those without a letter are runs of spaces: text."""
    found: dict[str, int] = {}
    for token_id, token in tokenizer.get_added_tokens_decoder().items():
        if token.content in text and any(map(str.isalpha, token.content)):
            if token.lstrip or token.rstrip or token.single_word:
                raise SettingsInvalid(
                    f"engine.reranker.template: {token.content} takes spaces beside it along, which is not supported"
                )
            found[token.content] = token_id
    return found


def _parts(text: str, control_tokens: Mapping[str, int]) -> Iterator[_Part]:
    """The template's control tokens and the texts between them, in order."""
    longest_first = sorted(map(re.escape, control_tokens), key=len, reverse=True)
    for part in re.split(f"({'|'.join(longest_first)})", text) if longest_first else [text]:
        if part:
            yield part, control_tokens.get(part)


def _resolved(tokenizer: Tokenizer, parts: Sequence[_Part]) -> Iterator[list[int] | str]:
    """Ids for what never changes, the text itself where it holds placeholders."""
    for part, token_id in parts:
        if token_id is not None:
            yield [token_id]
        elif PLACEHOLDER.search(part):
            yield part
        elif part:
            yield _encode(tokenizer, part)


def _joined(parts: Iterable[list[int] | str]) -> list[int]:
    return [one for part in parts if not isinstance(part, str) for one in part]


def _filled(text: str, instruction: str, query: str) -> str:
    """In one pass: a query may hold "{document}" without being asked for it."""
    values = {INSTRUCTION: instruction, QUERY: query}
    return PLACEHOLDER.sub(lambda found: values[found.group()], text)


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)
