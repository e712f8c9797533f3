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
static int supported = SUPPORTED;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
  strncpy(text, "GPU-a0000000", size); text[4] += (long)handle - 1; return 0; }
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
  rates[0] = 10 * (long)handle; rates[1] = 0; return supported ? 0 : 3; }
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
  memory[0] = 1000; memory[1] = 400; memory[2] = 600; return 0; }
"""
READINGS = [GpuReading(index, (index + 1) / 10, 600, 1000) for index in range(3)]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Loaded in place of the driver's library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "nvml.c").write_text(SOURCE.replace("SUPPORTED", str(getattr(request, "param", 1))))
    library = tmp_path / "nvml.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "nvml.c"], check=True)
    monkeypatch.setattr(nvml, "_LIBRARY", str(library))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, READINGS),
        ("1", READINGS[1:2]),
        ("0, 2", [READINGS[0], READINGS[2]]),
        ("GPU-c", READINGS[2:]),
        ("GPU-b0000000,0", READINGS[:2]),
        ("", []),
        ("-1", []),
        ("MIG-5c89852c", []),
    ],
)
def test_the_gpus_that_this_process_may_use_are_read(
    driver: None, monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[GpuReading]
):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert nvml.gpu_reader()() == expected


@pytest.mark.parametrize("driver", [0], indirect=True)
def test_what_the_driver_does_not_tell_is_told_once_and_then_left(driver: None, monkeypatch: pytest.MonkeyPatch):
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
