"""What the driver says of the GPUs that this process may use: NVML's C library, which comes with the driver.

nvidia-smi would say the same and takes most of a second for it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from consumer.metrics.sampler import GpuReading

_LIBRARY = "libnvidia-ml.so.1"
_NOT_VISIBLE = {"", "-1", "NoDevFiles"}
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs."""

log = structlog.get_logger()


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class NvmlFailed(Exception):
    """A call to NVML did not succeed."""


def gpu_reader() -> Callable[[], Sequence[GpuReading]]:
    """What reads the GPUs, once they were found. Blocking; without a driver, or a GPU, it reads none.

    The same where NVML does not tell, for a slice of a GPU (MIG) for instance: the worker does not depend on it.
    """
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        return lambda: ()
    return _Reader(nvml).read


class _Reader:
    """Until a call fails; what failed then is in the log, once."""

    def __init__(self, nvml: ctypes.CDLL) -> None:
        self._nvml = nvml
        self._handles: dict[int, ctypes.c_void_p] = {}
        self._failed = False
        with self._noting_failure():
            _call(nvml, "nvmlInit_v2")
            self._handles = {index: _handle(nvml, index) for index in _visible(nvml)}

    def read(self) -> list[GpuReading]:
        readings: list[GpuReading] = []
        if not self._failed:
            with self._noting_failure():
                readings = [_read(self._nvml, index, handle) for index, handle in self._handles.items()]
        return readings

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except NvmlFailed as failed:
            self._failed = True
            log.warning("GPUs are not watched", reason=str(failed))


def _visible(nvml: ctypes.CDLL) -> list[int]:
    """Indices, by the driver's count, of what CUDA_VISIBLE_DEVICES names, by index or UUID; all, if it is not set."""
    count = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    everything = list(range(count.value))
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return everything
    wanted = [name.strip() for name in named.split(",")]
    if wanted[0] in _NOT_VISIBLE:
        return []
    return [
        index
        for index in everything
        if str(index) in wanted or any(name and _uuid(nvml, index).startswith(name) for name in wanted)
    ]


def _read(nvml: ctypes.CDLL, index: int, handle: ctypes.c_void_p) -> GpuReading:
    utilization, memory = _Utilization(), _Memory()
    _call(nvml, "nvmlDeviceGetUtilizationRates", handle, ctypes.byref(utilization))
    _call(nvml, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    return GpuReading(index, utilization.gpu / 100, memory.used, memory.total)


def _handle(nvml: ctypes.CDLL, index: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _call(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    return handle


def _uuid(nvml: ctypes.CDLL, index: int) -> str:
    text = ctypes.create_string_buffer(96)
    _call(nvml, "nvmlDeviceGetUUID", _handle(nvml, index), text, ctypes.c_uint(len(text)))
    return text.value.decode()


def _call(nvml: ctypes.CDLL, name: str, *arguments: object) -> None:
    if code := getattr(nvml, name)(*arguments):
        raise NvmlFailed(f"{name} gave {code}")
