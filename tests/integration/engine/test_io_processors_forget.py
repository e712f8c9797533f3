"""Whatever becomes of a request, an IO processor keeps nothing of it."""

import threading
from typing import Any

import pytest

from consumer.hooks import HookOverran
from tests.integration.engine.processors import float32, plugin, processor_on, refused
from tests.services.process import wait_until

WAIT_SECONDS = 60.0


async def until_forgotten(kept: Any) -> None:
    """An abandoned attempt is taken out of the plugin, soon."""
    await wait_until(lambda: not kept, "nothing is kept", WAIT_SECONDS)


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("own bug")


@pytest.mark.parametrize("hook", ["merge_pooling_params", "post_process"])
async def test_a_fault_of_the_processor_leaves_nothing_of_its_request_behind(hook: str):
    kept = plugin(**{hook: fail})
    processor = processor_on(kept)

    async def attempt() -> None:
        begun = await processor.begin("a")
        assert kept.pending
        await processor.finish(begun, [float32(1)])

    with pytest.raises(KeyError):
        await attempt()
    await until_forgotten(kept.pending)


async def test_prompts_that_are_refused_leave_nothing_of_their_request_behind():
    kept = plugin()
    await refused(processor_on(kept).begin("123456789"))
    await until_forgotten(kept.pending)


async def test_a_request_that_is_given_up_in_between_leaves_nothing_behind_and_its_neighbours_stay():
    kept = plugin()
    processor = processor_on(kept)
    neighbour = await processor.begin("b")
    given_up = await processor.begin("a")
    assert len(kept.pending) == 2
    del given_up
    await wait_until(lambda: len(kept.pending) == 1, "one is forgotten", WAIT_SECONDS)
    assert (await processor.finish(neighbour, [float32(1)]))["was"] == "b"
    assert not kept.pending


async def test_a_processor_with_a_hook_for_it_is_told_what_was_given_up_and_only_that():
    told: list[str] = []
    kept = plugin(discard_request=lambda _, request_id: told.append(request_id))
    processor = processor_on(kept)
    await processor.finish(await processor.begin("a"), [float32(1)])
    attempt = await processor.begin("a")
    request_id = attempt.request_id
    del attempt
    await wait_until(lambda: bool(told), "the processor is told", WAIT_SECONDS)
    assert told == [request_id]


async def test_a_hook_that_comes_back_too_late_leaves_nothing_behind_either():
    late = threading.Event()

    def pre_process(self: Any, prompt: Any, request_id: str | None = None, **_: Any) -> Any:
        late.wait()
        self.pending[request_id] = prompt
        return prompt

    kept = plugin(pre_process=pre_process)
    processor = processor_on(kept, timeout_seconds=0.2)
    with pytest.raises(HookOverran):
        await processor.begin("a")
    assert not kept.pending
    processor._hooks._timeout_seconds = 60.0
    late.set()
    await until_forgotten(kept.pending)
