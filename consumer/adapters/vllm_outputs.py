"""From the engine's tensors to the numbers that tasks get."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from consumer.records import EngineOutput, InputRejected
from schemas.errors import ErrorCode

_NON_FINITE = InputRejected(ErrorCode.NON_FINITE, "the model gave numbers that are not finite")


def engine_outputs(computed: Sequence[torch.Tensor | InputRejected]) -> list[EngineOutput]:
    """Floating numbers as float32 whatever the engine computed in, with refusals left in their places.

    Tensors of one shape are converted and checked together: outputs are then views of one array.
    """
    tensors = [one for one in computed if isinstance(one, torch.Tensor)]
    if len({(one.shape, one.dtype) for one in tensors}) == 1:
        rows = iter(_numbers(torch.stack(tensors)))
    else:
        rows = (row for one in tensors for row in _numbers(one.unsqueeze(0)))
    return [next(rows) if isinstance(one, torch.Tensor) else one for one in computed]


def _numbers(stacked: torch.Tensor) -> list[EngineOutput]:
    """One output for each element of the first dimension."""
    numbers: np.ndarray = (stacked.float() if stacked.is_floating_point() else stacked).numpy()
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    return [row if is_finite else _NON_FINITE for row, is_finite in zip(numbers, finite.tolist(), strict=True)]
