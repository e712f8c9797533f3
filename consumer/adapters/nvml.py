"""What the driver says of the GPUs that this process may use: NVML's C library, which comes with the driver.

nvidia-smi would say the same and takes most of a second for it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from consumer.metrics.sampler import GpuReading

_LIBRARY = "libnvidia-ml.so.1"
_NOT_VISIBLE = {"", "-1", "NoDevFiles"}
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs."""
_NOT_HERE = {3, 4, 6}
"""NVML_ERROR_NOT_SUPPORTED, _NO_PERMISSION and _NOT_FOUND, of nvml.h."""

log = structlog.get_logger()


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class NvmlFailed(Exception):
    """A call to NVML did not succeed."""


def gpu_reader() -> Callable[[], Sequence[GpuReading]]:
    """What reads the GPUs, once they were found. Blocking; without a driver, or a GPU, it reads none.

    The same where a call to NVML fails: the worker does not depend on it.
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
        self._handles: dict[str, ctypes.c_void_p] = {}
        self._failed = False
        with self._noting_failure():
            _call(nvml, "nvmlInit_v2")
            self._handles = _visible(nvml)

    def read(self) -> list[GpuReading]:
        readings: list[GpuReading] = []
        if not self._failed:
            with self._noting_failure():
                readings = [_read(self._nvml, name, handle) for name, handle in self._handles.items()]
        return readings

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except NvmlFailed as failed:
            self._failed = True
            log.warning("GPUs are not watched", reason=str(failed))


def _visible(nvml: ctypes.CDLL) -> dict[str, ctypes.c_void_p]:
    """By name, in the order of CUDA_VISIBLE_DEVICES, which has numbers and beginnings of UUIDs; all, if it is not set.

    As CUDA does: what stands behind a name that is no device's does not count, and of a GPU that is sliced (MIG) and
    named as a whole the first slice that this process may use is meant.
    """
    gpus = _gpus(nvml)
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible: dict[str, ctypes.c_void_p] = {}
    for wanted in gpus if names is None else names.split(","):
        found = None if wanted in _NOT_VISIBLE else _named(nvml, gpus, wanted.strip())
        if found is None:
            break
        visible |= found
    return visible


def _named(nvml: ctypes.CDLL, gpus: Mapping[str, ctypes.c_void_p], wanted: str) -> dict[str, ctypes.c_void_p] | None:
    """The device of that number or UUID, with its name; None when there is none."""
    for number, gpu in gpus.items():
        slices = {f"{number}:{at}": one for at, one in enumerate(_slices(nvml, gpu))}
        if wanted == number or _uuid(nvml, gpu).startswith(wanted):
            first = next(iter(slices), None)
            return {number: gpu} if first is None else {first: slices[first]}
        for name, one in slices.items():
            if _uuid(nvml, one).startswith(wanted):
                return {name: one}
    return None


def _gpus(nvml: ctypes.CDLL) -> dict[str, ctypes.c_void_p]:
    count = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    gpus: dict[str, ctypes.c_void_p] = {}
    for index in range(count.value):
        handle = gpus[str(index)] = ctypes.c_void_p()
        _call(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    return gpus


def _slices(nvml: ctypes.CDLL, gpu: ctypes.c_void_p) -> list[ctypes.c_void_p]:
    """Those of this GPU that this process may use; none where it is whole."""
    now, pending = ctypes.c_uint(), ctypes.c_uint()
    told = _told(nvml, "nvmlDeviceGetMigMode", gpu, ctypes.byref(now), ctypes.byref(pending))
    if not (told and now.value):
        return []
    most = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetMaxMigDeviceCount", gpu, ctypes.byref(most))
    handles = [ctypes.c_void_p() for _ in range(most.value)]
    place = "nvmlDeviceGetMigDeviceHandleByIndex"
    return [one for at, one in enumerate(handles) if _told(nvml, place, gpu, ctypes.c_uint(at), ctypes.byref(one))]


def _read(nvml: ctypes.CDLL, name: str, handle: ctypes.c_void_p) -> GpuReading:
    utilization, memory = _Utilization(), _Memory()
    told = _told(nvml, "nvmlDeviceGetUtilizationRates", handle, ctypes.byref(utilization))
    _call(nvml, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    return GpuReading(name, utilization.gpu / 100 if told else None, memory.used, memory.total)


def _uuid(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(96)
    _call(nvml, "nvmlDeviceGetUUID", handle, text, ctypes.c_uint(len(text)))
    return text.value.decode()


def _told(nvml: ctypes.CDLL, name: str, *arguments: object) -> bool:
    """False when there is no such thing here, or not for us."""
    code = _ask(nvml, name, *arguments)
    if code and code not in _NOT_HERE:
        raise NvmlFailed(f"{name} gave {code}")
    return not code


def _call(nvml: ctypes.CDLL, name: str, *arguments: object) -> None:
    if code := _ask(nvml, name, *arguments):
        raise NvmlFailed(f"{name} gave {code}")


def _ask(nvml: ctypes.CDLL, name: str, *arguments: object) -> int:
    return int(getattr(nvml, name)(*arguments))
