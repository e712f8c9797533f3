"""The engine's numbers as they came, without a torch tensor for each output.

vLLM's decoder calls back into Python for every output, and makes a tensor of it by four calls of torch: 6 us, and the
tensors of a micro-batch are put together afterwards. Here the same messages are decoded by the same types, save that
the numbers stay bytes: 0.3 us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec


class Numbers(NamedTuple):
    """One output. `dtype`: torch's name; `data`: the elements one after the other, in this machine's byte order."""

    dtype: str
    shape: tuple[int, ...]
    data: Any
    """Readable bytes. In vLLM's message: these, or the number of the frame that has them."""


def keep_numbers_as_they_came(core: Any) -> Callable[[], None]:
    """Of AsyncLLM's `engine_core`: its outputs have Numbers in the place of tensors until what is returned is called.

    Raises AttributeError or ImportError where a release of vLLM lacks what is needed.
    """
    decoder = core.decoder
    vllms_own = decoder.decoder
    decoder.decoder = _Decoder(decoder)

    def undo() -> None:
        decoder.decoder = vllms_own

    return undo


class _Decoder:
    """In the place of the msgspec decoder inside vLLM's. What it is not made for is decoded by that one."""

    def __init__(self, around: Any) -> None:
        # Here, where a release that has moved them costs the faster client and not the start.
        from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason  # noqa: PLC0415
        from vllm.v1.serial_utils import CUSTOM_TYPE_RAW_VIEW  # noqa: PLC0415

        self._around = around
        self._vllms_own = around.decoder
        self._raw_view = CUSTOM_TYPE_RAW_VIEW
        known = {"request_id": str, "pooling_output": Numbers | None, "finish_reason": FinishReason | None}
        output = _mirror(EngineCoreOutput, known)
        outputs = _mirror(EngineCoreOutputs, {"outputs": list[output]})  # type: ignore[valid-type]
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(outputs, ext_hook=self._extension)

    def decode(self, message: Any) -> Any:
        """EngineCoreOutputs, or what has its fields."""
        try:
            outputs = self._decoder.decode(message)
        except msgspec.ValidationError:
            return self._vllms_own.decode(message)
        if outputs.utility_output is not None:
            return self._vllms_own.decode(message)
        frames = self._around.aux_buffers
        if len(frames) > 1:
            for one in outputs.outputs:
                if one.pooling_output is not None and isinstance(one.pooling_output.data, int):
                    one.pooling_output = one.pooling_output._replace(data=frames[one.pooling_output.data])
        return outputs

    def _extension(self, code: int, data: memoryview) -> memoryview:
        if code != self._raw_view:
            raise msgspec.ValidationError(f"an extension of type {code}")
        return data


def _mirror(struct: type[msgspec.Struct], known: Mapping[str, Any]) -> type[msgspec.Struct]:
    """A struct with the same fields, of these types or any."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(struct):
        kind = known.get(field.name, Any)
        fields.append((field.name, kind) if field.required else (field.name, kind, _default(field)))
    return msgspec.defstruct(f"Raw{struct.__name__}", fields, array_like=True, gc=False)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default
