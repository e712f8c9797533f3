"""transformers on the same token ids, as people use it without vLLM: padded batches, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from consumer.errors import SettingsInvalid
from consumer.model.card import ModelCard
from consumer.records import EngineInput
from consumer.sections import EngineSettings


class PaddedBatches:
    """The model of `card` in batches of `batch_size` sequences, in the order in which they come.

    Measures cost: what a head makes of the numbers is left to the model, and they are brought back to the processor.
    Raises SettingsInvalid for an architecture that transformers does not have.
    """

    def __init__(self, settings: EngineSettings, card: ModelCard, batch_size: int) -> None:
        architecture = getattr(transformers, card.architecture, None)
        if architecture is None:
            raise SettingsInvalid(f"transformers has no {card.architecture}: there is nothing to compare with")
        self._batch_size = batch_size
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        model = architecture.from_pretrained(card.folder, dtype=settings.dtype)
        if model.config.pad_token_id is None:
            # Heads on decoders find a text's last token by it.
            model.config.pad_token_id = card.vocabulary_size - 1
        self._pad = model.config.pad_token_id
        self._last_token_only = {"logits_to_keep": 1} if card.architecture.endswith("ForCausalLM") else {}
        self._model = model.to(self._device).eval()
        self.dtype = str(model.dtype).removeprefix("torch.")

    def score(self, requests: Sequence[Sequence[EngineInput]]) -> Sequence[float]:
        """Run all; no latencies."""
        sequences = [one.token_ids for request in requests for one in request]
        with torch.inference_mode():
            for start in range(0, len(sequences), self._batch_size):
                self._forward(sequences[start : start + self._batch_size])
        return ()

    def _forward(self, batch: Sequence[list[int]]) -> Any:
        width = max(map(len, batch))
        # On the left, where a language model answers at the end; elsewhere the models expect it on the right.
        left = bool(self._last_token_only)
        ids = torch.full((len(batch), width), self._pad, dtype=torch.long)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for row, one in enumerate(batch):
            place = slice(width - len(one), width) if left else slice(0, len(one))
            ids[row, place] = torch.tensor(one)
            mask[row, place] = 1
        mask = mask.to(self._device)
        answer = self._model(input_ids=ids.to(self._device), attention_mask=mask, **self._last_token_only)
        if "logits" in answer:
            return answer.logits.float().cpu()
        weights = mask.unsqueeze(-1)
        states = answer.last_hidden_state.float()
        return ((states * weights).sum(1) / weights.sum(1)).cpu()
