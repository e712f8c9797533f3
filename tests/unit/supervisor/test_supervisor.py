"""What a supervisor does with processes that get warm, die, hang or refuse to start."""

import asyncio
import ctypes
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.errors import SettingsInvalid
from consumer.sections import Mps, WorkersSettings
from consumer.supervisor import restarts, supervisor
from consumer.supervisor.mps import CONTROL, PID_FILE, check_mps
from consumer.supervisor.process import _PR_SET_CHILD_SUBREAPER, inherit_orphans
from consumer.supervisor.roster import Phase
from tests.services.process import is_alive, wait_until
from tests.unit.supervisor.supervised import Supervised, exit_code, supervised


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses and looks a hundred times as fast."""
    monkeypatch.setattr(restarts, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "WATCH_SECONDS", 0.1)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_all_join_when_the_last_is_warm(tmp_path: Path) -> None:
    async with supervised(tmp_path, {}, ((), (), ())) as workers:
        await workers.until_steps("joined", 3)
    steps = [one["step"] for one in workers.journal]
    assert sorted(steps[:6]) == ["started"] * 3 + ["warm"] * 3
    assert steps[6:] == ["joined"] * 3 + ["drained"] * 3


async def test_who_is_warm_joins_without_those_that_take_too_long(tmp_path: Path) -> None:
    async with supervised(tmp_path, {1: ["slow"]}, ((), (), ()), workers__join_timeout_seconds=0.5) as workers:
        await workers.until_steps("joined", 2)
        assert sorted(workers.steps("joined")) == [0, 2]


@pytest.fixture
def inherits_orphans() -> Iterator[None]:
    """As a supervisor does; the tests' own process goes back to what it was."""
    inherit_orphans()
    yield
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0)


@pytest.mark.usefixtures("inherits_orphans")
async def test_a_dead_worker_comes_back_alone_and_nothing_of_it_is_left_behind(tmp_path: Path) -> None:
    async with supervised(tmp_path, {1: ["die", "run"]}) as workers:
        await wait_until(lambda: workers.steps("joined").count(1) == 2, "the other one")
        [left] = [int(one["step"].split()[1]) for one in workers.journal if one["step"].startswith("left")]
        assert not is_there(left), "what the dead one had started is not even a zombie"
        assert workers.steps("started").count(0) == 1


async def test_a_worker_that_dies_while_it_waits_to_join_is_down_at_once(tmp_path: Path) -> None:
    """Nobody must let it join any more."""
    slot = Supervised(tmp_path, {0: ["fade"]}, ((),), {}).supervisor._slots[0]
    end = await slot.live()
    assert end is not None
    assert (end.exit_code, end.ran_seconds, slot.phase, slot.pid) == (4, 0, Phase.DOWN, None)


async def test_a_worker_that_is_not_live_is_killed_and_comes_back(tmp_path: Path) -> None:
    async with supervised(tmp_path, {0: ["deaf", "run"]}, kafka__group_instance_id="host") as workers:
        await wait_until(lambda: workers.steps("joined").count(0) == 2, "the other one")
        assert workers.steps("started").count(1) == 1
        assert 0 not in workers.steps("drained")


async def test_settings_that_one_worker_refuses_end_all_with_2(tmp_path: Path) -> None:
    code, workers = await exit_code(tmp_path, {1: ["refuse"]})
    assert code == 2
    assert workers.steps("joined") in ([], [0])


async def test_a_worker_that_keeps_dying_ends_all_with_1_and_the_others_drain(tmp_path: Path) -> None:
    code, workers = await exit_code(tmp_path, {1: ["fail"]})
    assert code == 1
    assert workers.steps("started").count(1) == 5
    assert workers.steps("started").count(0) == 1
    assert workers.steps("drained") == [0]


MPS_CONTROL = """#!/bin/sh
pid_file=$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
if [ "$1" = -d ]; then
    word=$1
    setsid sleep 600 &
    echo $! > $pid_file
else
    read -r word
    kill $(cat $pid_file)
fi
echo "$word $CUDA_MPS_PIPE_DIRECTORY [$CUDA_VISIBLE_DEVICES]" >> LOG
"""


class MpsControl:
    """A command in the place of NVIDIA's: the daemon is there from -d until `quit`, and does nothing."""

    def __init__(self, folder: Path) -> None:
        self._log, self._pipes = folder / "mps.log", folder / "mps-pipe"
        self.command = folder / "bin" / CONTROL
        self.command.parent.mkdir()
        self.command.write_text(MPS_CONTROL.replace("LOG", str(self._log)))
        self.command.chmod(self.command.stat().st_mode | stat.S_IXUSR)

    @property
    def asked(self) -> list[str]:
        """What it was asked so far, where, and with which GPUs."""
        return self._log.read_text().splitlines()

    def asked_to(self, *words: str) -> list[str]:
        """As `asked` is, when it was asked this, of the supervisor's daemon, with all GPUs."""
        return [f"{word} {self._pipes} []" for word in words]

    @property
    def pid(self) -> int:
        """Of the daemon."""
        return int((self._pipes / PID_FILE).read_text())


@pytest.fixture
def mps_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MpsControl:
    control = MpsControl(tmp_path)
    monkeypatch.setenv("PATH", f"{control.command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    return control


async def test_under_mps_a_dead_worker_comes_back_alone_and_the_daemon_stays(
    tmp_path: Path, mps_control: MpsControl
) -> None:
    async with supervised(tmp_path, {1: ["die", "run"]}, (("1",), ("1",)), workers__mps="on") as workers:
        await workers.until_steps("joined", 3)
        assert sorted(workers.steps("started")) == [0, 1, 1]
        assert workers.steps("drained") == []
        assert is_alive(mps_control.pid)
    assert mps_control.asked == mps_control.asked_to("-d", "quit")


async def test_when_the_mps_daemon_ends_unasked_the_workers_drain_and_the_supervisor_ends_with_1(
    tmp_path: Path, mps_control: MpsControl
) -> None:
    workers = Supervised(tmp_path, {}, (("1",), ("1",)), {"workers.mps": "on"})
    running = asyncio.create_task(workers.supervisor.run())
    await workers.until_steps("joined", 2)
    os.kill(mps_control.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        assert await running == 1
    assert sorted(workers.steps("drained")) == [0, 1]
    assert len(workers.steps("started")) == 2


async def test_an_mps_daemon_that_does_not_tell_its_pid_is_used_all_the_same(
    tmp_path: Path, mps_control: MpsControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.supervisor.mps._PID_SECONDS", 0.05)
    mps_control.command.write_text(mps_control.command.read_text().replace(PID_FILE, "pid-of-another-name"))
    async with supervised(tmp_path, {}, (("1",), ("1",)), workers__mps="on") as workers:
        await workers.until_steps("joined", 2)
        assert not (tmp_path / "mps-pipe" / PID_FILE).exists()
    assert mps_control.asked == mps_control.asked_to("-d", "quit")


async def test_without_the_mps_daemon_nothing_starts_and_the_fix_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsInvalid, match=f"no {CONTROL} on PATH: install it"):
        async with supervised(tmp_path, {}, workers__mps="on"):
            await asyncio.sleep(0)
    [finding] = check_mps(WorkersSettings(count=2, mps=Mps.ON))
    assert (finding.ok, finding.found) == (False, f"there is no {CONTROL} on PATH")
