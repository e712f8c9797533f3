"""Every answer on a results topic, as far as the drills that measure need it."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from producer_tools.connections.kafka import Brokers
from producer_tools.coordinates import header, source_of
from producer_tools.kafka import open_reader, read_spans, spans_of
from schemas import headers as names
from schemas.wire import parse_result
from tests.chaos.judgement import Place


@dataclass(frozen=True, slots=True)
class Answer:
    """One result. `code`: of its error; None if it has none."""

    partition: int
    source_offset: int
    written_at: float
    """Unix seconds."""
    code: str | None


async def answers(place: Place) -> AsyncIterator[Answer]:
    """What is there now, each partition in its order."""
    async with open_reader(Brokers(place.bootstrap_servers)) as reader:
        async for records in read_spans(reader, await spans_of(reader, place.topics.results)):
            for record in records:
                source = source_of(record.headers)
                assert source is not None
                failed = header(record.headers, names.STATUS) == "error"
                error = parse_result(record.value).error if failed else None
                yield Answer(
                    record.partition, source.offset, record.timestamp / 1000, error.code if error is not None else None
                )


def steady_rate(moments: Iterable[float]) -> float:
    """Answers per second without the first and the last tenth, in which not everything was at work."""
    ordered = sorted(moments)
    first, last = len(ordered) // 10, len(ordered) * 9 // 10
    return (last - first) / (ordered[last] - ordered[first])


class OrderWatch:
    """All requests have readable ids and nobody was struck: then each is answered once, and none is left out."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self.breaches: list[str] = []

    def saw(self, answer: Answer) -> None:
        """The next answer of its partition."""
        expected = self._next.get(answer.partition, 0)
        if answer.source_offset != expected:
            self.breaches.append(f"partition {answer.partition}: {answer.source_offset} after {expected - 1}")
        self._next[answer.partition] = answer.source_offset + 1
