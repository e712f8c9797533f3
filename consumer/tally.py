"""What the worker has done since it started, counted where it happens; the progress line of the log."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from consumer.item import Item


@dataclass(slots=True)
class Tally:
    """Monotonic counts since the start of the process."""

    received: int = 0
    scored_sequences: int = 0
    scored_tokens: int = 0
    answered: int = 0
    dead_letters: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    fence_refusals: int = 0
    """Writes that Redis refused because it holds a newer answer."""
    cache_losses: int = 0
    """Results that Redis does not have because it failed and the mode is best_effort."""

    def delivered(self, items: Iterable[Item]) -> None:
        """These records' answers are acknowledged."""
        for item in items:
            if item.outcome is None:
                continue
            self.dead_letters += item.outcome.dead_letter is not None
            if item.outcome.code is None:
                self.answered += 1
            else:
                self.refused[item.outcome.code.value] += 1

    def line(self) -> dict[str, object]:
        """Keys and values of one log line."""
        return {
            "received": self.received,
            "answered": self.answered,
            "refused": dict(self.refused),
            "dead_letters": self.dead_letters,
            "scored_sequences": self.scored_sequences,
            "scored_tokens": self.scored_tokens,
            "fence_refusals": self.fence_refusals,
            "cache_losses": self.cache_losses,
        }
