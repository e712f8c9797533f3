"""From what the engine computed to the numbers that tasks get."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from consumer.adapters.vllm_decoding import Numbers
from consumer.records import EngineOutput, InputRejected
from schemas.errors import ErrorCode

_NON_FINITE = InputRejected(ErrorCode.NON_FINITE, "the model gave numbers that are not finite")


def engine_outputs(computed: Sequence[Numbers | torch.Tensor | InputRejected]) -> list[EngineOutput]:
    """Floating numbers as float32 whatever the engine computed in, with refusals left in their places.

    Those of one shape are converted and checked together: outputs are then views of one array.
    """
    scored = [one for one in computed if not isinstance(one, InputRejected)]
    if len({(type(one), one.shape, one.dtype) for one in scored}) == 1:
        rows = iter(_checked(_stacked(scored)))
    else:
        rows = (row for one in scored for row in _checked(_stacked([one])))
    return [one if isinstance(one, InputRejected) else next(rows) for one in computed]


def _stacked(alike: Sequence[Numbers] | Sequence[torch.Tensor]) -> torch.Tensor:
    """One tensor of all, which are of one kind, shape and dtype."""
    first = alike[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(list(alike))
    elements = torch.frombuffer(bytearray().join(one.data for one in alike), dtype=getattr(torch, first.dtype))
    return elements.view(len(alike), *first.shape)


def _checked(stacked: torch.Tensor) -> list[EngineOutput]:
    """One output for each element of the first dimension."""
    numbers: np.ndarray = (stacked.float() if stacked.is_floating_point() else stacked).numpy()
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    return [row if is_finite else _NON_FINITE for row, is_finite in zip(numbers, finite.tolist(), strict=True)]
