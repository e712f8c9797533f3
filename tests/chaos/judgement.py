"""What became of every request, judged from outside after the faults."""

from collections import Counter
from dataclasses import dataclass, field

from producer_tools.connections.kafka import Brokers
from producer_tools.connections.redis import RedisServer
from producer_tools.kafka import open_reader, spans_of
from producer_tools.verify.audit import Audit, Topics, audit
from producer_tools.verify.cache import Cache
from tests.chaos.load import Load
from tests.services.reading import read_topic

TTL_SECONDS = 3600
"""The worker's default: what is younger must be in Redis."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one deployment under test reads and writes."""

    bootstrap_servers: str
    redis_url: str
    name: str

    @property
    def topics(self) -> Topics:
        """Its three topics."""
        return Topics(f"{self.name}.requests", f"{self.name}.results", f"{self.name}.dead")

    @property
    def settings(self) -> dict[str, object]:
        """A worker's settings, as far as they say where."""
        return {
            "kafka.bootstrap_servers": self.bootstrap_servers,
            "kafka.request_topic": self.topics.requests,
            "kafka.result_topic": self.topics.results,
            "kafka.dead_letter_topic": self.topics.dead_letters,
            "kafka.group_id": self.name,
            "redis.url": self.redis_url,
            "redis.prefix": f"{self.name}:",
            "engine.kind": "scripted",
        }

    async def ends(self, topic: str) -> dict[int, int]:
        """Partition -> the offset of the next record."""
        async with open_reader(Brokers(self.bootstrap_servers)) as reader:
            return {one.partition: span.end for one, span in (await spans_of(reader, topic)).items()}


@dataclass(slots=True)
class Judgement:
    """Without a mismatch every promise was kept. `duplicates`: by partition."""

    audit: Audit
    duplicates: Counter[int]
    mismatches: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        tally = self.audit.tally
        return (
            f"{tally.requests} requests, {tally.results} results, {tally.dead_letters} dead letters, "
            f"{tally.duplicates} duplicates, {self.audit.redis_checked} looked up in Redis; "
            f"{len(self.mismatches)} mismatches"
        )


async def judge(place: Place, load: Load, bound_duplicates: int) -> Judgement:
    """`bound_duplicates` per partition. Nothing may be under way any more."""
    cache = Cache(RedisServer(place.redis_url), f"{place.name}:", TTL_SECONDS)
    found = await audit(
        Brokers(place.bootstrap_servers), place.topics, wait_seconds=0, cache=cache, note=lambda _text: None
    )
    judged = Judgement(found, await _duplicates(place, found.tally.results + found.tally.duplicates))
    wrong = judged.mismatches
    for finding, count in found.findings.counts.items():
        where = ", ".join(map(str, found.findings.examples[finding]))
        wrong.append(f"{count} x {finding.value}: {where}")
    if found.tally.requests < len(load.acknowledged):
        wrong.append(f"{len(load.acknowledged)} requests acknowledged, {found.tally.requests} on the topic")
    letters = await read_topic(place.bootstrap_servers, place.topics.dead_letters, found.tally.dead_letters)
    dead = {letter.value for letter in letters}
    wrong += [f"no dead letter: {value!r}" for value in load.acknowledged_bad - dead]
    wrong += [f"a dead letter, but not bad: {value!r}" for value in dead - load.sent_bad]
    for partition, copies in judged.duplicates.items():
        if copies > bound_duplicates:
            wrong.append(f"{copies} duplicates on partition {partition}, the bound is {bound_duplicates}")
    return judged


async def _duplicates(place: Place, count: int) -> Counter[int]:
    """Results beyond the first of their source, by partition."""
    records = await read_topic(place.bootstrap_servers, place.topics.results, count)
    sources = Counter((record.partition, dict(record.headers)["scorestream-source-offset"]) for record in records)
    extra: Counter[int] = Counter()
    for (partition, _), copies in sources.items():
        extra[partition] += copies - 1
    return extra
