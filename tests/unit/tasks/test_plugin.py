"""task plugin: what an IO processor makes of a request, and whose fault what goes wrong is."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from consumer.errors import RecordRejected
from consumer.hooks import HookOverran
from consumer.records import CustomPooling, EngineInput, InputRejected, Later, Prepared, Shaped
from consumer.tasks.plugin import Plugin
from schemas.errors import ErrorCode
from schemas.request import PluginRequest
from tests.unit.tasks.fakes import CROSS_ENCODER, float32, tasks


@dataclass
class Attempt:
    data: Any
    inputs: list[EngineInput] = field(default_factory=lambda: [EngineInput([1, 2, 3], CustomPooling("params"))])


class Doubling:
    """Answers the engine's numbers, doubled."""

    async def begin(self, data: Any) -> Attempt:
        return Attempt(data)

    async def finish(self, attempt: Attempt, outputs: list[np.ndarray]) -> Any:
        return {"of": attempt.data, "doubled": [(2 * one).tolist() for one in outputs]}


class Overrunning(Doubling):
    async def begin(self, data: Any) -> Attempt:
        raise HookOverran("did not return within 1 s")


def request(processor: str = "doubling", data: Any = None) -> PluginRequest:
    return PluginRequest(id="a", task="plugin", processor=processor, data=data)


async def prepared(task: Plugin, asked: PluginRequest) -> Prepared:
    assert task.parse(asked) == []
    later = task.prepare(asked, [])
    assert isinstance(later, Later)
    return await later.work()


async def shaped(task: Plugin, one: Prepared, outputs: list[Any]) -> Shaped:
    later = task.shape(one, outputs)
    assert isinstance(later, Later)
    return await later.work()


async def test_the_answer_is_one_element_with_the_processors_data_and_no_scale():
    task = Plugin({"doubling": Doubling()})
    one = await prepared(task, request(data={"any": ["json", 1]}))
    answer = await shaped(task, one, [float32(0.5, 1)])
    assert answer.results == [{"index": 0, "data": {"of": {"any": ["json", 1]}, "doubled": [[1.0, 2.0]]}}]
    assert answer.scale is None
    assert one.prompt_tokens == 3


def test_a_processor_that_is_not_installed_is_not_supported_naming_those_that_are():
    with pytest.raises(RecordRejected, match="it has doubling, overrunning") as rejected:
        Plugin({"overrunning": Overrunning(), "doubling": Doubling()}).parse(request("other"))
    assert rejected.value.code is ErrorCode.UNSUPPORTED_TASK
    assert "other" not in rejected.value.message


def test_a_worker_without_processors_does_not_offer_the_task():
    assert "plugin" not in tasks(CROSS_ENCODER)


async def test_a_prompt_that_the_engine_refuses_is_the_requests_error():
    task = Plugin({"doubling": Doubling()})
    one = await prepared(task, request())
    with pytest.raises(RecordRejected, match="no such token") as rejected:
        await shaped(task, one, [float32(1), InputRejected(ErrorCode.ENGINE_REJECTED, "no such token")])
    assert rejected.value.code is ErrorCode.ENGINE_REJECTED


async def test_a_processor_that_does_not_return_is_our_fault_and_may_be_tried_again():
    with pytest.raises(RecordRejected, match="the IO processor did not return within 1 s") as rejected:
        await prepared(Plugin({"slow": Overrunning()}), request("slow"))
    assert rejected.value.code is ErrorCode.INTERNAL
    assert rejected.value.code.retryable
