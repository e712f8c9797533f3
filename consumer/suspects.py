"""Which records may have killed the engine, across restarts of the process.

When the engine dies, everything that was in it is suspected, and replayed one record at a time. A record that kills the
engine twice while it is there alone is `engine_rejected`; so a crash makes at most one dead letter, and usually none.
The count of a record that killed it alone rides in the commit's metadata: the next owner knows it, and a poison pill
does not kill each owner of its partition in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from consumer.item import Item
from consumer.records import TopicPartition

KILLS_TO_REJECT = 2
_NOTE = "scorestream-suspect"


class Suspects:
    """The suspects of one worker; a record is named by its partition and offset."""

    def __init__(self) -> None:
        self._kills: dict[tuple[TopicPartition, int], int] = {}
        self._attempts: dict[tuple[TopicPartition, int], int] = {}
        """How often those were tried when they last killed it, by earlier owners too."""
        self.accusations = 0
        """So many records were alone in the engine when it died."""
        self.told = 0
        """Of these the next owners know; see Committer."""

    def __len__(self) -> int:
        return len(self._kills)

    def accuse(self, in_engine: Collection[Item]) -> Item | None:
        """The engine died with these in it; returns the one that has now killed it often enough, if any."""
        for item in in_engine:
            item.alone = True
        if len(in_engine) != 1:
            return None
        [item] = in_engine
        name = (item.lane.partition, item.offset)
        self._kills[name] = self._kills.get(name, 0) + 1
        self._attempts[name] = item.attempt
        self.accusations += 1
        return item if self._kills[name] >= KILLS_TO_REJECT else None

    def recognise(self, item: Item) -> bool:
        """A record has arrived; a suspect goes into the engine alone. True when it has killed it often enough already.

        So it is when the process ended before the rejection had left it.
        """
        name = (item.lane.partition, item.offset)
        kills, attempts = self._kills.get(name, 0), self._attempts.get(name, 0)
        item.alone = kills > 0
        # Counted from the record's first owner on; one that is rejected here is not tried here.
        item.attempt = max(item.attempt, attempts if kills >= KILLS_TO_REJECT else attempts + 1)
        return kills >= KILLS_TO_REJECT

    def delivered(self, items: Iterable[Item]) -> None:
        """These are answered, for good: no owner will see them again."""
        if self._kills:
            for item in items:
                self._kills.pop((item.lane.partition, item.offset), None)
                self._attempts.pop((item.lane.partition, item.offset), None)

    def note(self, partition: TopicPartition) -> str:
        """What the next owner of the partition must know, for the commit's metadata; empty if nothing."""
        known = [f"{offset}:{kills}" for (where, offset), kills in self._kills.items() if where == partition]
        # Of a form of their own: workers of 0.1.0 read the kills alone, and pass over these.
        known += [f"{offset}@{tries}" for (where, offset), tries in self._attempts.items() if where == partition]
        return " ".join((_NOTE, *known)) if known else ""

    def learn(self, notes: Mapping[TopicPartition, str]) -> None:
        """What the previous owners left in the commits' metadata. Anything that is not a note of ours is ignored."""
        for partition, note in notes.items():
            name, *known = note.split(" ")
            if name != _NOTE:
                continue
            for entry in known:
                for counts, mark in ((self._kills, ":"), (self._attempts, "@")):
                    offset, _, count = entry.partition(mark)
                    if offset.isdigit() and count.isdigit():
                        counts[(partition, int(offset))] = int(count)

    def forget(self, partition: TopicPartition) -> None:
        """The partition is not ours any more."""
        self._kills = {name: kills for name, kills in self._kills.items() if name[0] != partition}
        self._attempts = {name: tries for name, tries in self._attempts.items() if name[0] != partition}
