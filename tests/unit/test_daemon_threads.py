"""Threads that do work for others, and do not keep a process from ending."""

import subprocess
import sys
import threading

import pytest

from consumer.daemon_threads import DaemonThreads


def test_whoever_submits_gets_what_the_function_returned_or_raised() -> None:
    threads = DaemonThreads(2, "work")
    assert threads.submit(sorted, [2, 1], reverse=True).result() == [2, 1]
    failed = threads.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result()
    assert threads.submit(int, "7").result() == 7, "the thread goes on"


def test_they_end_when_nobody_has_them_any_more() -> None:
    threads = DaemonThreads(1, "transient")
    [mine] = [one for one in threading.enumerate() if one.name == "transient_0"]
    assert threads.submit(int, "1").result() == 1
    del threads
    mine.join(timeout=30)
    assert not mine.is_alive()


def test_one_that_never_returns_does_not_keep_the_process_from_ending() -> None:
    code = (
        "import threading; from consumer.daemon_threads import DaemonThreads; threads = DaemonThreads(1, 'stuck'); "
        "begun = threading.Event(); "
        "threads.submit(lambda: (begun.set(), threading.Event().wait())); begun.wait()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
