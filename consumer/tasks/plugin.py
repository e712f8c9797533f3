"""plugin: whatever an IO processor makes of the request's `data`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from consumer.errors import RecordRejected
from consumer.hooks import HookOverran
from consumer.interfaces import EncodedText, Processor
from consumer.records import EngineOutput, InputRejected, Later, Prepared, Shaped
from schemas.errors import ErrorCode
from schemas.request import PluginRequest

log = structlog.get_logger()


class Plugin:
    """Hands a request to the processor that it names. There is no list: an error is the request's, without an index."""

    def __init__(self, processors: Mapping[str, Processor]) -> None:
        self._processors = processors

    def parse(self, request: PluginRequest) -> list[str]:
        """No texts: the processor makes its own prompts. Raises RecordRejected for a processor that is not here."""
        if request.processor not in self._processors:
            able = ", ".join(sorted(self._processors))
            raise RecordRejected(
                ErrorCode.UNSUPPORTED_TASK, f"`processor` is not installed in this worker; it has {able}"
            )
        return []

    def prepare(self, request: PluginRequest, texts: Sequence[EncodedText]) -> Later[Prepared]:
        """The processor's prompts. It raises RecordRejected."""
        del texts
        return Later(partial(self._prepare, request))

    def shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Later[Shaped]:
        """The processor's answer, which has no scale. It raises RecordRejected."""
        return Later(partial(self._shape, prepared, outputs))

    async def _prepare(self, request: PluginRequest) -> Prepared:
        try:
            attempt = await self._processors[request.processor].begin(request.data)
        except HookOverran as overran:
            raise _overran(request, overran) from overran
        return Prepared(request=request, inputs=attempt.inputs, plan=attempt)

    async def _shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Shaped:
        request = prepared.request
        assert isinstance(request, PluginRequest)
        numbers = []
        for output in outputs:
            if isinstance(output, InputRejected):
                raise RecordRejected(output.code, output.message)
            numbers.append(output)
        try:
            data = await self._processors[request.processor].finish(prepared.plan, numbers)
        except HookOverran as overran:
            raise _overran(request, overran) from overran
        return Shaped(results=[{"index": 0, "data": data}], scale=None)


def _overran(request: PluginRequest, overran: HookOverran) -> RecordRejected:
    log.error("an IO processor does not return", processor=request.processor, reason=str(overran))
    return RecordRejected(ErrorCode.INTERNAL, f"the IO processor {overran}")
