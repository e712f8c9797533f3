"""From one text of a request to one sequence, or to the reason why there is none."""

from __future__ import annotations

import re

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, TextEncoder
from consumer.model.card import ModelCard
from consumer.records import InputRejected, TokenSequence
from consumer.sections import LimitSettings
from consumer.tokenization import Tokens
from schemas.errors import ErrorCode

_DATA_URI = re.compile(r"\s*data:(?:[\w.+-]+/[\w.+-]+(?:;\s?[^,;\s]*)*|(?:;\s?[^,;\s]+)+),", re.ASCII | re.IGNORECASE)
"""With a media type, or with parameters alone, as RFC 2397 allows; some writers put a space before a parameter."""
_URL = re.compile(r"\s*+[a-z][a-z0-9+.-]{0,31}://\S++\s*+\Z", re.ASCII | re.IGNORECASE)
"""A URL and nothing else, of whatever scheme."""
_MOST_UTF8_BYTES = 4
"""Of one code point."""


class Texts:
    """The texts of one role, with the prompt that the model wants before each."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings, prompt: str = "") -> None:
        self._usable_tokens = card.usable_tokens
        self._encoder = encoder
        self._limits = limits
        self._prompt = prompt
        (alone,) = encoder.encode([prompt])
        self._prompt_ids = alone.ids

    def to_tokenise(self, text: str, field: str, index: int | None = None) -> str:
        """What the tokenizer is to see of a text; nothing of one with too many bytes, which `refusal` refuses.

        Raises RecordRejected for a data: URI: it stands for an image, and a score of its base64 would mean nothing.
        """
        if _DATA_URI.match(text):
            raise RecordRejected(ErrorCode.SCHEMA, f"{field} is a data: URI; only texts are scored", index=index)
        return "" if self._too_many_bytes(text) else self._prompt + text

    def document_to_tokenise(self, document: str, field: str, index: int | None = None) -> str:
        """The same of what is compared with a query.

        Raises RecordRejected for a URL alone, too: other rerankers fetch the image or the page there. In a query or an
        input to embed or classify a URL is a text: people search for one, and models label them.
        """
        if _URL.match(document):
            raise RecordRejected(
                ErrorCode.SCHEMA, f"{field} is a URL, and nothing is fetched; only texts are scored", index=index
            )
        return self.to_tokenise(document, field, index)

    def too_large(self, text: str) -> InputRejected | None:
        """Why this text is not even tokenised, or None."""
        if not self._too_many_bytes(text):
            return None
        message = f"the text has more than {self._limits.max_text_bytes} bytes, this worker's limit"
        return InputRejected(ErrorCode.TOO_LONG, message)

    def refusal(self, text: str, encoded: EncodedText) -> InputRejected | None:
        """Why this text cannot be scored at any length, or None. It is empty if it adds no token to the prompt."""
        if refusal := self.too_large(text):
            return refusal
        # To a byte-level tokenizer white space is content.
        if encoded.ids == self._prompt_ids or not text.strip():
            return InputRejected(ErrorCode.EMPTY_INPUT, "the text has no content that the model can read")
        return None

    def capped(self, encoded: EncodedText, max_tokens: int | None) -> EncodedText:
        """The first `max_tokens` of the text itself, not counting the prompt."""
        kept = len(encoded.ids) if max_tokens is None else len(self._prompt_ids) + max_tokens
        return encoded if kept >= len(encoded.ids) else Tokens(encoded.ids[:kept])

    def sequence(
        self, text: str, encoded: EncodedText, *, truncate: bool | None, max_tokens: int | None = None
    ) -> TokenSequence | InputRejected:
        """The text alone as one sequence; `truncate` and `max_tokens` as in the request."""
        if refusal := self.refusal(text, encoded):
            return refusal
        capped = self.capped(encoded, max_tokens)
        return self.checked(self._encoder.single(capped, self._usable_tokens), encoded, capped, truncate=truncate)

    def checked(
        self, sequence: TokenSequence, encoded: EncodedText, capped: EncodedText, *, truncate: bool | None
    ) -> TokenSequence | InputRejected:
        """The sequence, if the model did not cut it or may; a cap that the caller asked for always may."""
        if sequence.truncated and not self.may_cut(truncate=truncate):
            return self.does_not_fit(len(capped.ids))
        return sequence._replace(truncated=True) if capped is not encoded else sequence

    def may_cut(self, *, truncate: bool | None) -> bool:
        """Whether a text that does not fit is cut; `truncate` as in the request."""
        return self._limits.truncate if truncate is None else truncate

    def does_not_fit(self, tokens: int) -> InputRejected:
        """The refusal of a text of so many tokens that must not be cut."""
        return InputRejected(
            ErrorCode.TOO_LONG,
            f"the text has {tokens} tokens and does not fit into the model's {self._usable_tokens}; "
            "`truncate` would cut it",
        )

    def _too_many_bytes(self, text: str) -> bool:
        limit = self._limits.max_text_bytes
        return len(text) * _MOST_UTF8_BYTES > limit and len(text.encode()) > limit
