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
    refused: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    breaker_opens: Counter[str] = field(default_factory=Counter)
    """By the code that was most frequent."""
    fence_refusals: int = 0
    """Writes that Redis refused because it holds a newer answer."""
    cache_losses: int = 0
    """Results that Redis does not have because it failed and the mode is best_effort."""

    def delivered(self, items: Iterable[Item]) -> None:
        """These records' answers are acknowledged."""
        for item in items:
            if item.outcome is None:
                continue
            if item.outcome.code is None:
                self.answered += 1
                continue
            self.refused[item.outcome.code.value] += 1
            if item.outcome.dead_letter is not None:
                self.dead_letters[item.outcome.code.value] += 1

    @property
    def delivered_records(self) -> int:
        """Answered, well or not."""
        return self.answered + self.refused.total()

    def line(self) -> dict[str, object]:
        """Keys and values of one log line."""
        return {
            "received": self.received,
            "answered": self.answered,
            "refused": dict(self.refused),
            "dead_letters": self.dead_letters.total(),
            "scored_sequences": self.scored_sequences,
            "scored_tokens": self.scored_tokens,
            "fence_refusals": self.fence_refusals,
            "cache_losses": self.cache_losses,
        }
