"""The engine's messages, decoded without a tensor for each output, beside what vLLM's own decoder makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

SHAPES = {
    "a score each": ["float32 1"] * 3,
    "in bfloat16": ["bfloat16 3"] * 2,
    "embeddings, in frames of their own": ["float32 384"] * 5,
    "embeddings in half precision": ["float16 1024"] * 2,
    "two of one size and one of another": ["float32 4", "float32 4", "float32 400"],
    "several types": ["float32 2", "float64 2", "int64 2"],
    "a matrix": ["float32 7x5"],
    "one alone": ["float32 1"],
}


def tensor(kind: str) -> Any:
    import torch  # noqa: PLC0415 - seconds

    dtype, shape = kind.split()
    sizes = [int(size) for size in shape.split("x")]
    return (torch.randn(sizes) * 9).to(getattr(torch, dtype))


def frames_of(outputs: Sequence[Any] = (), **more: Any) -> Sequence[Any]:
    """A message of the engine's with these tensors, or None, as they come out of the socket."""
    import zmq  # noqa: PLC0415
    from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason  # noqa: PLC0415 - imports vLLM
    from vllm.v1.serial_utils import MsgpackEncoder  # noqa: PLC0415 - imports vLLM

    told = [
        EngineCoreOutput(str(place), [], pooling_output=one, finish_reason=FinishReason.STOP)
        for place, one in enumerate(outputs)
    ]
    return [zmq.Frame(bytes(part)) for part in MsgpackEncoder().encode(EngineCoreOutputs(outputs=told, **more))]


@pytest.fixture
def core() -> Any:
    from vllm.v1.engine import EngineCoreOutputs  # noqa: PLC0415 - imports vLLM
    from vllm.v1.serial_utils import MsgpackDecoder  # noqa: PLC0415 - imports vLLM

    return SimpleNamespace(decoder=MsgpackDecoder(EngineCoreOutputs))


@pytest.mark.parametrize("kinds", SHAPES.values(), ids=SHAPES)
def test_the_numbers_are_those_of_vllms_own_tensors(kinds: Sequence[str], core: Any) -> None:
    from consumer.adapters.vllm_decoding import Numbers, keep_numbers_as_they_came  # noqa: PLC0415 - imports vLLM
    from consumer.adapters.vllm_outputs import engine_outputs  # noqa: PLC0415 - imports torch

    frames = frames_of([tensor(kind) for kind in kinds])
    tensors = [one.pooling_output for one in core.decoder.decode(frames).outputs]
    undo = keep_numbers_as_they_came(core)
    decoded = core.decoder.decode(frames)
    assert [one.request_id for one in decoded.outputs] == [str(place) for place in range(len(kinds))]
    numbers = [one.pooling_output for one in decoded.outputs]
    assert all(isinstance(one, Numbers) for one in numbers)
    for ours, vllms in zip(engine_outputs(numbers), engine_outputs(tensors), strict=True):
        assert (ours.dtype, ours.shape) == (vllms.dtype, vllms.shape)
        np.testing.assert_array_equal(ours, vllms)
    undo()
    assert not isinstance(core.decoder.decode(frames).outputs[0].pooling_output, Numbers)


def test_what_has_no_numbers_and_what_is_no_output_is_as_vllm_decodes_it(core: Any) -> None:
    from vllm.v1.engine import FinishReason, UtilityOutput  # noqa: PLC0415 - imports vLLM
    from vllm.v1.serial_utils import UtilityResult  # noqa: PLC0415 - imports vLLM

    from consumer.adapters.vllm_decoding import keep_numbers_as_they_came  # noqa: PLC0415 - imports vLLM

    keep_numbers_as_they_came(core)
    [ended] = core.decoder.decode(frames_of([None])).outputs
    assert (ended.pooling_output, ended.finish_reason) == (None, FinishReason.STOP)
    answer = core.decoder.decode(frames_of(utility_output=UtilityOutput(7, None, UtilityResult(True)))).utility_output
    assert (type(answer), answer.call_id, answer.result.result) == (UtilityOutput, 7, True)
    nothing = core.decoder.decode(frames_of(finished_requests={"a"}))
    assert (nothing.outputs, set(nothing.finished_requests)) == ([], {"a"})
    with pytest.raises(msgspec.DecodeError):
        core.decoder.decode([b"\xc1"])
