"""What the tools see and start of a GPU, with stand-ins for the driver's commands."""

import asyncio
import os
from pathlib import Path

import pytest

from producer_tools.bench.beginning import machine
from producer_tools.console import ToolFailure
from producer_tools.local.gpu import watching_gpus
from producer_tools.local.mps import CONTROL, mps_daemon, mps_is_there

NVIDIA_SMI = """
if [ "$1" = -L ]; then echo "GPU 0: NVIDIA H200 (UUID: GPU-1)"; exit; fi
echo "0, NVIDIA H200, 40, 1000"
echo "0, NVIDIA H200, 60, 3000"
echo "1, NVIDIA H200 MIG 1g, [N/A], 500"
exec sleep 600
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose commands are found first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def command(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}")
    file.chmod(0o755)


async def test_use_and_memory_of_each_gpu_are_seen_until_the_block_ends(commands: Path) -> None:
    command(commands, "nvidia-smi", NVIDIA_SMI)
    async with watching_gpus() as seen, asyncio.timeout(20):
        while True:
            if "1" in seen:
                break
            await asyncio.sleep(0.02)
    assert (seen["0"].name, seen["0"].busy_percent, seen["0"].max_memory_mib) == ("NVIDIA H200", [40.0, 60.0], 3000.0)
    assert (seen["1"].busy_percent, seen["1"].max_memory_mib) == ([], 500.0)
    assert machine()["gpus"] == ["GPU 0: NVIDIA H200"]


async def test_a_driver_that_does_not_answer_is_no_gpu(commands: Path) -> None:
    command(commands, "nvidia-smi", "echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9")
    async with watching_gpus() as seen:
        await asyncio.sleep(0)
    assert (seen, machine()["gpus"]) == ({}, [])


async def test_an_mps_daemon_runs_while_it_is_needed_and_is_found_by_its_environment(commands: Path) -> None:
    log = commands / "log"
    command(commands, CONTROL, f'echo "$1 $(cat) $CUDA_MPS_PIPE_DIRECTORY" >> {log}')
    assert mps_is_there()
    async with mps_daemon(commands) as found_by:
        assert log.read_text() == f"-d  {found_by['CUDA_MPS_PIPE_DIRECTORY']}\n"
    assert log.read_text().splitlines()[1] == f" quit {found_by['CUDA_MPS_PIPE_DIRECTORY']}"


async def test_an_mps_daemon_that_does_not_start_is_said_so(commands: Path) -> None:
    command(commands, CONTROL, "exit 3")
    with pytest.raises(ToolFailure, match="exit code 3"):
        async with mps_daemon(commands):
            raise AssertionError
