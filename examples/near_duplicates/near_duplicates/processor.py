"""From a request's `data` to prompts, and from the model's numbers to an answer."""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from vllm.config import VllmConfig
from vllm.outputs import PoolingRequestOutput
from vllm.plugins.io_processors.interface import IOProcessor
from vllm.pooling_params import PoolingParams

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Texts(BaseModel):
    """What a request's `data` must be."""

    model_config = ConfigDict(strict=True, extra="forbid")

    texts: Annotated[list[Text], Field(min_length=1)]
    max_distance: Annotated[int, Field(ge=0)] = 8
    """Signatures that differ in at most so many of their 64 bits belong together."""


class Answer(BaseModel):
    """What the result's `data` will be."""

    signatures: list[str]
    groups: list[list[int]]
    """Indices of texts that belong together, directly or through others; every text is in one group."""


class NearDuplicatesProcessor(IOProcessor[Texts, Answer]):
    """Keeps each request, under its id, until its outputs are there."""

    def __init__(self, vllm_config: VllmConfig, renderer: Any) -> None:
        super().__init__(vllm_config, renderer)
        self._pending: dict[str | None, Texts] = {}

    def parse_data(self, data: object) -> Texts:
        """Raises ValidationError, which the caller is told field by field."""
        return Texts.model_validate(data)

    def pre_process(self, prompt: Texts, request_id: str | None = None, **_: Any) -> Sequence[str]:
        """One prompt per text."""
        self._pending[request_id] = prompt
        return prompt.texts

    def merge_pooling_params(self, params: PoolingParams | None = None) -> PoolingParams:
        """The sum's signs are all that counts, so it is left as it is, not scaled to length 1."""
        params = params or PoolingParams()
        params.task = "embed"
        params.use_activation = False
        return params

    def post_process(
        self, model_output: Sequence[PoolingRequestOutput], request_id: str | None = None, **_: Any
    ) -> Answer:
        """Signatures, and who belongs together."""
        request = self._pending.pop(request_id)
        bits = torch.stack([one.outputs.data for one in model_output]) > 0
        return Answer(signatures=[_hex(row) for row in bits.tolist()], groups=_groups(bits, request.max_distance))


def _hex(bits: list[bool]) -> str:
    number = sum(bit << place for place, bit in enumerate(bits))
    return f"{number:0{len(bits) // 4}x}"


def _groups(bits: torch.Tensor, max_distance: int) -> list[list[int]]:
    """Connected components; [texts, bits] -> indices, by each group's first."""
    close = (bits[:, None] != bits[None]).sum(-1) <= max_distance
    groups: list[list[int]] = []
    left = set(range(len(bits)))
    while left:
        group, frontier = set(), {min(left)}
        while frontier:
            group |= frontier
            frontier = {row for one in frontier for row in close[one].nonzero().flatten().tolist()} - group
        groups.append(sorted(group))
        left -= group
    return groups
