"""What is left out of the Kafka client's log, and what is not."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from consumer import logs
from consumer.repetition import MAX_KINDS, PERIOD_SECONDS, RepetitionFilter

CLIENT, COORDINATOR = "aiokafka.client", "aiokafka.consumer.group_coordinator"
UNABLE = "Unable connect to node with id %s: %s"


class Filtered:
    """A handler's filter under a clock of the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self._filter = RepetitionFilter("aiokafka", lambda: self.now)

    def log(
        self, name: str, template: str, *arguments: object, level: int = logging.ERROR, trace: Exception | None = None
    ) -> tuple[str, str] | None:
        """Level and message as logged; None when it is left out."""
        exc_info = (type(trace), trace, None) if trace else None
        record = logging.LogRecord(name, level, __file__, 1, template, arguments, exc_info)
        return (record.levelname, record.getMessage()) if self._filter.filter(record) else None


@pytest.fixture
def filtered() -> Filtered:
    return Filtered()


def test_of_one_kind_one_line_a_minute_is_logged_with_how_many_were_left_out(filtered: Filtered) -> None:
    assert filtered.log(CLIENT, UNABLE, 0, "refused") == ("WARNING", "Unable connect to node with id 0: refused")
    for node in range(37):
        filtered.now += 1
        assert filtered.log(CLIENT, UNABLE, node, "refused") is None
    filtered.now = PERIOD_SECONDS + 15
    message = "Unable connect to node with id 1: timed out (37 more like it in the last 75 s)"
    assert filtered.log(CLIENT, UNABLE, 1, "timed out") == ("WARNING", message)
    filtered.now += PERIOD_SECONDS
    assert filtered.log(CLIENT, UNABLE, 1, "100%") == ("WARNING", "Unable connect to node with id 1: 100%")


def test_other_templates_and_other_loggers_are_other_kinds(filtered: Filtered) -> None:
    assert filtered.log(CLIENT, UNABLE, 0, "refused")
    assert filtered.log(CLIENT, "Unable to update metadata from %s", [0])
    assert filtered.log(COORDINATOR, UNABLE, 0, "refused")
    assert filtered.log(CLIENT, UNABLE, 0, "refused") is None


def test_the_client_is_never_above_a_warning_but_where_it_has_failed_itself(filtered: Filtered) -> None:
    assert filtered.log(CLIENT, "told by %s", "debug", level=logging.DEBUG) == ("DEBUG", "told by debug")
    assert filtered.log(CLIENT, "dead", level=logging.CRITICAL) == ("WARNING", "dead")
    assert filtered.log(CLIENT, "Unexpected error in routine", trace=KeyError()) == (
        "ERROR",
        "Unexpected error in routine",
    )


@pytest.mark.parametrize("name", ["consumer.worker", "aiokafkaesque", "asyncio", "vllm.engine"])
def test_lines_of_everybody_else_are_left_as_they_are(filtered: Filtered, name: str) -> None:
    for _ in range(3):
        assert filtered.log(name, "partition stuck") == ("ERROR", "partition stuck")


def test_the_kind_that_was_logged_longest_ago_is_forgotten_first(filtered: Filtered) -> None:
    assert filtered.log(CLIENT, "0")
    filtered.now = PERIOD_SECONDS
    for number in range(1, MAX_KINDS):
        assert filtered.log(CLIENT, str(number))
    assert filtered.log(CLIENT, "0"), "logged anew, so 1 is the oldest now"
    assert filtered.log(CLIENT, "one more")
    assert filtered.log(CLIENT, "0") is None
    assert filtered.log(CLIENT, "2") is None
    assert filtered.log(CLIENT, "1")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What a worker writes; logging is put back as it was."""
    root, client = logging.getLogger(), logging.getLogger("aiokafka")
    before = (root.handlers[:], root.level, client.level)
    stream = io.StringIO()
    logs.configure(stream)
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    client.setLevel(before[2])
    structlog.reset_defaults()


def test_a_worker_s_log_has_the_client_s_lines_once_as_warnings_and_its_own_each_time(logged: io.StringIO) -> None:
    for _ in range(3):
        logging.getLogger(CLIENT).error(UNABLE, 0, "refused")
        structlog.stdlib.get_logger("consumer.delivery").error("written in the end")
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("warning", "Unable connect to node with id 0: refused"),
        *3 * [("error", "written in the end")],
    ]
