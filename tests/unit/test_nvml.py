"""GPUs as NVML tells of them; a small library stands in for the driver's."""

import ctypes
import logging
import shutil
import subprocess
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from consumer.adapters import nvml
from consumer.metrics.sampler import GpuReading

SOURCE = r"""
#include <string.h>
enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, GPU_IS_LOST = 15 };
/* A handle: 1, 2, 3 for the GPUs, and 10 x that + 1, 2, ... for their slices. */
static long gpu(void *handle) { return (long)handle > 9 ? (long)handle / 10 : (long)handle; }
static int sliced(long gpu) { return SLICED == gpu; }
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
  strncpy(text, (long)handle > 9 ? "MIG-a0000000" : "GPU-a0000000", size);
  text[4] += gpu(handle) - 1; text[5] += (long)handle > 9 ? (long)handle % 10 : 0; return 0; }
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
  rates[0] = 10 * (long)handle; rates[1] = 0; return (long)handle > 9 ? NOT_SUPPORTED : LOST ? GPU_IS_LOST : 0; }
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
  unsigned long long of = (long)handle > 9 ? 10 : 1;
  memory[0] = 1000 / of; memory[1] = 400 / of; memory[2] = 600 / of; return 0; }
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *pending) {
  *now = *pending = sliced((long)handle); return (long)handle == 3 ? NOT_SUPPORTED : 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) { *count = 7; return 0; }
/* Of seven places two are taken, and a container would be let to some alone. */
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **slice) {
  *slice = (void *)(long)(10 * (long)handle + index); return index == 2 || index == 5 ? 0 : NOT_FOUND; }
"""
WHOLE = [GpuReading(str(index), (index + 1) / 10, 600, 1000) for index in range(3)]
SLICES = [GpuReading("0:0", None, 60, 100), GpuReading("0:1", None, 60, 100)]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Loaded in place of the driver's library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "nvml.c").write_text(SOURCE)
    library = tmp_path / "nvml.so"
    state = {"SLICED": 0, "LOST": 0, **getattr(request, "param", {})}
    given = [f"-D{name}={is_}" for name, is_ in state.items()]
    subprocess.run([compiler, "-shared", "-fPIC", *given, "-o", library, tmp_path / "nvml.c"], check=True)
    monkeypatch.setattr(nvml, "_LIBRARY", str(library))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, WHOLE),
        ("1", WHOLE[1:2]),
        ("2, 0", [WHOLE[2], WHOLE[0]]),
        ("GPU-c", WHOLE[2:]),
        ("GPU-b0000000,0", [WHOLE[1], WHOLE[0]]),
        ("1,7,0", WHOLE[1:2]),
        ("", []),
        ("-1", []),
        ("MIG-5c89852c", []),
    ],
)
def test_the_gpus_that_this_process_may_use_are_read_in_the_order_in_which_cuda_counts_them(
    driver: None, monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[GpuReading]
):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert nvml.gpu_reader()() == expected


@pytest.mark.parametrize("driver", [{"SLICED": 1}], indirect=True)
@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [SLICES[0], *WHOLE[1:]]),
        ("0", SLICES[:1]),
        ("MIG-a5", SLICES[1:]),
        ("1,MIG-a2", [WHOLE[1], SLICES[0]]),
    ],
)
def test_of_a_gpu_in_slices_the_one_that_is_used_is_read_without_the_utilization_that_no_driver_tells(
    driver: None, monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[GpuReading]
):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert nvml.gpu_reader()() == expected


@pytest.mark.parametrize("driver", [{"LOST": 1}], indirect=True)
def test_a_driver_that_fails_is_told_of_once_and_then_left(driver: None, monkeypatch: pytest.MonkeyPatch):
    log = create_autospec(logging.Logger)
    monkeypatch.setattr(nvml, "log", log)
    read = nvml.gpu_reader()
    assert list(read()) == list(read()) == []
    log.warning.assert_called_once()


def test_without_a_driver_there_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nvml, "_LIBRARY", "libnvidia-of-nobody.so")
    assert list(nvml.gpu_reader()()) == []


def test_the_structures_are_as_large_as_the_drivers():
    assert ctypes.sizeof(nvml._Utilization) == 8
    assert ctypes.sizeof(nvml._Memory) == 24
