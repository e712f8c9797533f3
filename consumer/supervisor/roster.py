"""Where every worker is, and who may start or join next. Pure: time is passed in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class Phase(StrEnum):
    """Of one worker, as its supervisor sees it."""

    WAITING = "waiting"
    """For its turn to start."""
    STARTING = "starting"
    """Loads its model."""
    WARM = "warm"
    """Could join the group, and waits for the others."""
    RUNNING = "running"
    """Was told to join."""
    DOWN = "down"
    """Has ended; starts again after a pause."""


ON_THE_WAY = (Phase.WAITING, Phase.STARTING)
"""Soon warm, if nothing goes wrong."""


class StartRule(Enum):
    """How engines may start at the same time."""

    TOGETHER = auto()
    """There is nothing to share."""
    AFTER_THE_FIRST = auto()
    """The first fills vLLM's compile cache, the rest find everything there."""
    ONE_BY_ONE = auto()
    """As before, and never two on one GPU: vLLM measures its free memory, and what another engine takes meanwhile
    makes that fail."""


@dataclass(slots=True)
class _Place:
    gpus: frozenset[str]
    phase: Phase = Phase.WAITING
    since: float = 0.0
    joins_from: float = 0.0


class Roster:
    """All workers of one supervisor. `gpus`: of each worker, none where there are none. `now` is monotonic seconds."""

    def __init__(self, gpus: Sequence[Sequence[str]], rule: StartRule, join_timeout_seconds: float) -> None:
        self._places = [_Place(frozenset(some)) for some in gpus]
        self._rule = rule
        self._join_timeout_seconds = join_timeout_seconds
        self._cache_is_filled = rule is StartRule.TOGETHER

    def phase(self, index: int) -> Phase:
        """Of one worker."""
        return self._places[index].phase

    def enter(self, index: int, phase: Phase, now: float) -> None:
        """A worker is there now."""
        self._places[index].phase = phase
        self._places[index].since = now
        self._cache_is_filled |= phase is Phase.WARM

    def may_start(self, index: int) -> bool:
        """Whether its engine may start beside those that are starting now."""
        starting = [place for place in self._places if place.phase is Phase.STARTING]
        if not self._cache_is_filled:
            return not starting
        if self._rule is not StartRule.ONE_BY_ONE:
            return True
        gpus = self._places[index].gpus
        return not any(place.gpus & gpus or not gpus for place in starting)

    def hold_back(self, index: int, until: float) -> None:
        """A worker was killed and could not leave the group; its successor must not join before the group forgets it.

        A join before that is a rebalance in which the broker waits for the dead member, and all others with it.
        """
        self._places[index].joins_from = until

    def joining(self, now: float) -> list[int]:
        """Whom to let join: all that are warm, once nobody is on the way or the first has waited for the limit.

        Each join is a rebalance of the whole group; those that come together are one. Who is down is not waited for.
        """
        if any(place.phase in ON_THE_WAY for place in self._places) and now < self._limit():
            return []
        return [
            index for index, place in enumerate(self._places) if place.phase is Phase.WARM and place.joins_from <= now
        ]

    def seconds_to_next_join(self, now: float) -> float | None:
        """Until time alone may let somebody join; None while it does not."""
        moments = [place.joins_from for place in self._places if place.phase is Phase.WARM]
        later = [moment - now for moment in (*moments, self._limit()) if now < moment < math.inf]
        return min(later, default=None)

    def _limit(self) -> float:
        """When the first that is warm has waited for as long as it may."""
        warm_since = [place.since for place in self._places if place.phase is Phase.WARM]
        return min(warm_since, default=math.inf) + self._join_timeout_seconds
