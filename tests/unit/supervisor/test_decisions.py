"""Who starts when, who joins when, what becomes of the dead, who gets which GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from consumer.errors import SettingsInvalid
from consumer.sections import EngineKind, EngineSettings
from consumer.settings import Settings, load_settings
from consumer.supervisor.gpus import gpus_of_workers, visible_gpus
from consumer.supervisor.health import Reason, WorkerHealth, as_document, as_text
from consumer.supervisor.plan import as_arguments, gpu_memory_share, plan_workers, start_rule
from consumer.supervisor.restarts import Again, End, GiveUp, Restarts, explain_exit
from consumer.supervisor.roster import Phase, Roster, StartRule

FIXED_CACHE = {"kv_cache_memory_bytes": 1 << 30}
ONE_GPU = [("0",)] * 3
LIMIT_SECONDS = 100.0


def engine(**args: object) -> EngineSettings:
    return EngineSettings(kind=EngineKind.VLLM, model="any", args=args)


def warm_before_each_start(rule: StartRule, gpus: list[tuple[str, ...]]) -> list[int]:
    """How many are warm when each is started; one gets warm whenever nobody else may start."""
    roster = Roster(gpus, rule, LIMIT_SECONDS)
    warm: list[int] = []
    starts: list[int] = []
    while len(warm) < len(gpus):
        waiting = [index for index in range(len(gpus)) if roster.phase(index) is Phase.WAITING]
        startable = [index for index in waiting if roster.may_start(index)]
        if startable:
            roster.enter(startable[0], Phase.STARTING, 0)
            starts.append(len(warm))
        else:
            index = next(index for index in range(len(gpus)) if roster.phase(index) is Phase.STARTING)
            roster.enter(index, Phase.WARM, 0)
            warm.append(index)
    return starts


@pytest.mark.parametrize(
    ("settings", "gpus", "warm"),
    [
        (EngineSettings(kind=EngineKind.SCRIPTED), [()] * 3, [0, 0, 0]),
        (engine(**FIXED_CACHE), ONE_GPU, [0, 1, 1]),
        (engine(), ONE_GPU, [0, 1, 2]),
        (engine(), [()] * 3, [0, 1, 2]),
        (engine(), [("0",), ("1",), ("0",), ("1",)], [0, 1, 1, 2]),
    ],
    ids=["scripted", "fixed cache", "one GPU", "no GPU", "two GPUs"],
)
def test_one_engine_fills_the_compile_cache_and_no_two_measure_one_gpu_at_a_time(
    settings: EngineSettings, gpus: list[tuple[str, ...]], warm: list[int]
) -> None:
    assert warm_before_each_start(start_rule(settings), gpus) == warm


def test_the_next_one_fills_the_compile_cache_when_the_first_dies_in_its_start() -> None:
    roster = Roster(ONE_GPU, StartRule.AFTER_THE_FIRST, LIMIT_SECONDS)
    roster.enter(0, Phase.STARTING, 0)
    assert not roster.may_start(1)
    roster.enter(0, Phase.DOWN, 1)
    assert roster.may_start(1)


def test_all_join_together_and_who_is_down_is_not_waited_for() -> None:
    roster = Roster([()] * 3, StartRule.TOGETHER, LIMIT_SECONDS)
    assert roster.joining(0) == []
    roster.enter(0, Phase.WARM, 10)
    roster.enter(1, Phase.STARTING, 10)
    assert roster.joining(10) == []
    roster.enter(1, Phase.WARM, 20)
    assert roster.joining(20) == [], "the third one waits for its turn to start"
    roster.enter(2, Phase.DOWN, 30)
    assert roster.joining(30) == [0, 1]
    roster.enter(0, Phase.RUNNING, 30)
    roster.enter(1, Phase.RUNNING, 30)
    roster.enter(2, Phase.WARM, 40)
    assert roster.joining(40) == [2], "a worker that comes back joins at once"


def test_who_is_warm_waits_for_the_limit_and_no_longer() -> None:
    roster = Roster([()] * 2, StartRule.TOGETHER, LIMIT_SECONDS)
    roster.enter(1, Phase.STARTING, 5)
    assert roster.seconds_to_next_join(5) is None
    roster.enter(0, Phase.WARM, 10)
    assert roster.seconds_to_next_join(50) == pytest.approx(60)
    assert roster.joining(109.9) == []
    assert roster.joining(110) == [0]


def test_the_successor_of_a_killed_worker_joins_when_the_group_has_forgotten_that_one() -> None:
    """Before that the broker waits for the dead member, and lets all others stand still."""
    roster = Roster([()] * 2, StartRule.TOGETHER, LIMIT_SECONDS)
    roster.enter(0, Phase.RUNNING, 0)
    roster.enter(1, Phase.DOWN, 10)
    roster.hold_back(1, 55)
    roster.enter(1, Phase.WARM, 20)
    assert roster.joining(54) == []
    assert roster.seconds_to_next_join(54) == pytest.approx(1)
    assert roster.joining(55) == [1]
    assert roster.seconds_to_next_join(55) == pytest.approx(20 + LIMIT_SECONDS - 55)


DEATH = End(1, "EngineDead: no answer", ran_seconds=0)
REFUSAL = End(2, "there is no topic", ran_seconds=0)


def test_pauses_double_up_to_a_minute_and_begin_anew_after_five_healthy_minutes() -> None:
    restarts = Restarts()
    pauses = [restarts.after(DEATH, 200.0 * number, proven=True) for number in range(8)]
    assert pauses == [Again(seconds) for seconds in (1, 2, 4, 8, 16, 32, 60, 60)]
    assert restarts.after(End(1, "again", ran_seconds=299), 2000, proven=True) == Again(60)
    assert restarts.after(End(1, "again", ran_seconds=300), 3000, proven=True) == Again(1)


def test_the_fifth_death_within_ten_minutes_is_the_last() -> None:
    restarts = Restarts()
    for now in (0, 150, 300, 450):
        assert isinstance(restarts.after(DEATH, now, proven=False), Again)
    assert isinstance(restarts.after(DEATH, 601, proven=False), Again), "the first was longer ago"
    assert restarts.after(DEATH, 602, proven=False) == GiveUp(
        1, "ended 5 times within 600 s, at last: EngineDead: no answer"
    )


def test_refused_settings_end_all_until_they_have_carried_a_worker_and_never_after() -> None:
    """A broker that is away makes a worker refuse to start; it must not end those that run."""
    assert Restarts().after(REFUSAL, 0, proven=False) == GiveUp(2, "there is no topic")
    restarts = Restarts()
    assert all(isinstance(restarts.after(REFUSAL, now, proven=True), Again) for now in range(50))


def test_a_worker_that_somebody_told_to_stop_comes_back_and_is_no_death() -> None:
    restarts = Restarts()
    assert all(restarts.after(End(0, "exit code 0", 9), now, proven=False) == Again(1) for now in range(50))


def test_a_worker_that_ends_with_0_again_and_again_before_it_joins_is_given_up():
    """Nobody told it to: what it runs is not a worker, or its start ends early."""
    restarts = Restarts()
    end = End(0, "exit code 0", ran_seconds=0)
    assert [restarts.after(end, now, proven=True) for now in range(4)] == [Again(1), Again(2), Again(4), Again(8)]
    assert isinstance(given_up := restarts.after(end, 4, proven=True), GiveUp)
    assert given_up.exit_code == 1
    assert given_up.why == "ended 5 times within 600 s, at last: exit code 0"


@pytest.mark.parametrize(("code", "text"), [(-9, "killed by SIGKILL (kill -9, or out of memory)"), (3, "exit code 3")])
def test_an_exit_is_told_in_words(code: int, text: str) -> None:
    assert explain_exit(code) == text


def test_gpus_go_round_and_one_engine_can_have_several() -> None:
    assert gpus_of_workers(3, (), 1) == [()] * 3
    assert gpus_of_workers(5, ("4", "6"), 1) == [("4",), ("6",), ("4",), ("6",), ("4",)]
    assert gpus_of_workers(3, ("0", "1", "2", "3", "4"), 2) == [("0", "1"), ("2", "3"), ("0", "1")]
    with pytest.raises(SettingsInvalid, match="asks for 4 GPUs, and there are 2"):
        gpus_of_workers(2, ("0", "1"), 4)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [("3,1", ("3", "1")), ("", ()), ("-1", ()), ("0, GPU-5af1", ("0", "GPU-5af1")), ("0,-1,1", ("0",))],
)
def test_visible_gpus_are_those_that_cuda_sees(visible: str, gpus: tuple[str, ...]) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": visible}) == gpus


def test_without_that_variable_the_driver_is_asked(tmp_path: Path) -> None:
    assert visible_gpus({"PATH": str(tmp_path)}) == ()
    driver = tmp_path / "nvidia-smi"
    driver.write_text(
        '#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: NVIDIA H200 (UUID: GPU-1)\n  MIG 1g.18gb Device 0: (UUID: MIG-1)\n'
        'GPU 1: NVIDIA H200 (UUID: GPU-2)"\n'
    )
    driver.chmod(0o755)
    assert visible_gpus({"PATH": f"{tmp_path}:/bin"}) == ("0", "1")


@pytest.mark.parametrize(
    ("settings", "gpus", "share"),
    [
        (engine(), [("0",)] * 4, 0.2),
        (engine(**FIXED_CACHE), [("0",)] * 3, 0.267),
        (engine(), [("0",), ("1",), ("0",)], 0.4),
        (engine(), [("0",), ("1",)], None),
        (engine(), [()] * 4, None),
        (engine(gpu_memory_utilization=0.3), [("0",)] * 4, None),
        (EngineSettings(kind=EngineKind.SCRIPTED), [("0",)] * 4, None),
    ],
)
def test_workers_divide_the_memory_of_a_gpu_unless_the_settings_do(
    settings: EngineSettings, gpus: list[tuple[str, ...]], share: float | None
) -> None:
    assert gpu_memory_share(settings, gpus) == share


def test_each_worker_has_its_own_gpu_instance_id_and_socket_and_what_is_told_is_read_back(tmp_path: Path) -> None:
    path = "engine.args.kv_cache_memory_bytes"
    settings = load_settings(
        {"engine.model": "any", "workers.count": 2, "kafka.group_instance_id": "host-a", path: 1 << 30}
    )
    first, second = plan_workers(settings, [("3",), ("3",)], tmp_path)
    assert second.environment == {
        "CUDA_VISIBLE_DEVICES": "3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "SCORESTREAM_WORKER_INDEX": "1",
        "SCORESTREAM_WORKER_COUNT": "2",
    }
    read = [load_settings(_read_back(as_arguments({"engine.model": "5", **one.overrides}))) for one in (first, second)]
    assert [one.kafka.group_instance_id for one in read] == ["host-a-0", "host-a-1"]
    assert [one.engine.args["gpu_memory_utilization"] for one in read] == [0.4, 0.4]
    assert [one.health.unix_socket for one in read] == [str(tmp_path / f"worker-{index}.sock") for index in (0, 1)]
    assert {(one.workers.count, one.engine.model) for one in read} == {(1, "5")}


def test_all_workers_find_the_mps_daemon_of_their_supervisor(tmp_path: Path) -> None:
    settings = load_settings({"engine.model": "any", "workers.count": 2, "workers.mps": "on"})
    for one in plan_workers(settings, [("3",), ("3",)], tmp_path):
        assert one.environment["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path / "mps-pipe")


def _read_back(arguments: list[str]) -> dict[str, object]:
    from consumer.cli import _overrides  # noqa: PLC0415 -- what the child does

    assert arguments[::2] == ["--set"] * (len(arguments) // 2)
    return _overrides(arguments[1::2], None, None, None)


def test_health_lists_every_worker_with_what_is_wrong_with_it() -> None:
    down = Reason("worker_down", "killed by SIGKILL; starts again 2 s later")
    workers = [WorkerHealth(0, Phase.RUNNING, 71), WorkerHealth(1, Phase.DOWN, None, (down,))]
    assert as_text(None, workers, ok=False) == (
        "worker 0: running\nworker 1: down: worker_down: killed by SIGKILL; starts again 2 s later\n"
    )
    assert as_text(None, workers[:1], ok=True) == "ok\nworker 0: running\n"
    assert as_document(None, workers, ok=False)["workers"] == [
        {"worker": 0, "phase": "running", "pid": 71, "reasons": []},
        {
            "worker": 1,
            "phase": "down",
            "pid": None,
            "reasons": [{"condition": "worker_down", "detail": "killed by SIGKILL; starts again 2 s later"}],
        },
    ]


def test_mps_is_for_workers_that_share() -> None:
    with pytest.raises(SettingsInvalid, match=r"workers\.mps is on and workers\.count is 1"):
        load_settings({"engine.kind": "scripted", "workers.mps": "on"})
    assert Settings(engine=EngineSettings(kind=EngineKind.SCRIPTED)).workers.count == 1


def test_the_supervisor_loads_nothing_of_the_engine() -> None:
    code = "import consumer.supervisor.main, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {name.split(".")[0] for name in loaded} & {"torch", "vllm", "transformers", "numpy", "aiokafka", "redis"}
