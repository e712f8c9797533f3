"""How much may be inside: of the engine (its queue holds Kafka back) and of memory.

Both are counted in this process at the moment of taking and giving back. vLLM's own gauges are sampled after a step,
so for pooling they read zero running sequences, and they go stale during a long step.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class EngineWindow:
    """Sequences and tokens inside the engine: what the GPU computes now and what waits ready beside it.

    Taken when a micro-batch is handed over, given back when the engine returns it, whatever became of its lanes.
    """

    limit_sequences: int
    limit_tokens: int
    sequences: int = 0
    tokens: int = 0
    exclusive: bool = False

    def admits(self, sequences: int, tokens: int) -> bool:
        """Whether so much more fits; never beside a record that must be alone.

        An idle engine takes one sequence whatever its size: it is never above a step.
        """
        if self.exclusive:
            return False
        if self.sequences == 0 and sequences == 1:
            return True
        return self.sequences + sequences <= self.limit_sequences and self.tokens + tokens <= self.limit_tokens

    def take(self, sequences: int, tokens: int) -> None:
        """Caller: the flow, when it submits a micro-batch."""
        self.sequences += sequences
        self.tokens += tokens

    def give_back(self, sequences: int, tokens: int) -> None:
        """Caller: the flow, when a micro-batch came back or failed."""
        self.sequences -= sequences
        self.tokens -= tokens
        self.exclusive = self.exclusive and self.sequences > 0


@dataclass(slots=True)
class MemoryBudget:
    """Bytes of all undelivered records of this worker, and the share that one lane may hold."""

    limit_bytes: int
    lane_share: float
    charged_bytes: int = 0

    @property
    def lane_limit_bytes(self) -> int:
        """The most one lane may be charged, so that one partition's large payloads leave room for the others."""
        return int(self.limit_bytes * self.lane_share)

    @property
    def room_bytes(self) -> int:
        """What is left for everybody."""
        return self.limit_bytes - self.charged_bytes
