"""Relevance by a decoder reranker: query and document stand in one prompt, and the model answers at its end."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, PairPrompt, TextEncoder
from consumer.model.card import ModelCard, Scale
from consumer.records import EngineOutput, InputRejected, Pooling, Prepared, TokenSequence
from consumer.sections import LimitSettings
from consumer.tasks.items import prepare_items
from consumer.tasks.pairs import PairsRequest, Scores, check_query, logit_scores, to_tokenise
from consumer.tasks.texts import Texts
from schemas.errors import ErrorCode


class ByPrompt:
    """Instruction, query and the prompt's end are never cut; the document is, at its right.

    The prompts of a request begin alike and enter the engine one after the other, so that it computes that beginning
    once.
    """

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        assert card.template is not None
        assert encoder.prompt is not None
        self._prompt: PairPrompt = encoder.prompt
        self._instruction = card.template.instruction
        self._usable_tokens = card.usable_tokens
        self._block_tokens = card.prefix_block_tokens
        self._texts = Texts(card, encoder, limits)
        self._heads = len(self._prompt.head_texts("", ""))

    def parse(self, request: PairsRequest, documents: Sequence[str]) -> list[str]:
        """The texts to tokenise: the prompt's beginning, then the documents with what stands beside them."""
        if request.instruction is not None and not self._prompt.takes_instruction:
            raise RecordRejected(ErrorCode.SCHEMA, "`instruction`: the loaded model takes none")
        query, *rows = to_tokenise(request, documents, self._texts, self._texts)
        instruction = self._texts.to_tokenise(self._instruction_of(request), "`instruction`")
        heads = self._prompt.head_texts(instruction, query)
        return heads + [self._prompt.document_text(instruction, query, row) for row in rows]

    def prepare(
        self, request: PairsRequest, documents: Sequence[str], encoded: Sequence[EncodedText], max_tokens: int | None
    ) -> Prepared:
        """One prompt per document. Raises RecordRejected."""
        instruction = self._instruction_of(request)
        if refusal := self._texts.too_large(instruction):
            raise RecordRejected(refusal.code, f"`instruction`: {refusal.message}")
        check_query(self._refusal(request.query))
        head = self._prompt.head_ids([one.ids for one in encoded[: self._heads]])
        prompts = [
            self._refusal(document) or self._fitted(request, document, head, row.ids, max_tokens)
            for document, row in zip(documents, encoded[self._heads :], strict=True)
        ]
        prepared = prepare_items(request, prompts, Pooling.CLASSIFY)
        if self._block_tokens:
            shared = len(head) // self._block_tokens * self._block_tokens
            first, *others = prepared.inputs
            prepared.inputs = [first, *(one._replace(shared_prefix_tokens=shared) for one in others)]
        return prepared

    def scores(self, prepared: Prepared, outputs: Sequence[EngineOutput], scale: Scale) -> Scores:
        """Each prompt's logit, or its sigmoid."""
        return logit_scores(prepared, outputs, scale)

    def _instruction_of(self, request: PairsRequest) -> str:
        return self._instruction if request.instruction is None else request.instruction

    def _refusal(self, text: str) -> InputRejected | None:
        """Why this text cannot be scored at any length, or None."""
        if refusal := self._texts.too_large(text):
            return refusal
        return None if text.strip() else InputRejected(ErrorCode.EMPTY_INPUT, "the text is empty")

    def _fitted(
        self, request: PairsRequest, document: str, head: list[int], ids: list[int], max_tokens: int | None
    ) -> TokenSequence | InputRejected:
        suffix = self._prompt.suffix_ids
        room = self._usable_tokens - len(head) - len(suffix)
        if max_tokens is None and len(ids) <= room:
            return TokenSequence(head + ids + suffix)
        instruction, whole = self._instruction_of(request), len(ids)
        own = sum(self._prompt.own_tokens(instruction, request.query, ids))
        if room < min(whole, own + 1):
            raise self._no_room(len(head) + own + len(suffix))
        asked = whole if max_tokens is None else min(whole, own + max_tokens)
        if asked > room and not self._texts.may_cut(truncate=request.truncate):
            return self._texts.does_not_fit(asked - own)
        kept = min(asked, room)
        if kept < whole:
            ids = self._prompt.cut(instruction, request.query, document, kept)
            if not ids:
                raise self._no_room(len(head) + own + len(suffix))
        return TokenSequence(head + ids + suffix, truncated=kept < whole)

    def _no_room(self, tokens: int) -> RecordRejected:
        return RecordRejected(
            ErrorCode.TOO_LONG,
            f"`query`: with the prompt it takes {tokens} of {self._usable_tokens} tokens; no room for documents",
        )
