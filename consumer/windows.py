"""How much may be inside: of the engine (its queue holds Kafka back) and of memory.

Both are counted in this process at the moment of taking and giving back. vLLM's own gauges are sampled after a step,
so for pooling they read zero running sequences, and they go stale during a long step.
"""

from dataclasses import dataclass, field

from consumer.records import Step

_LEAST_STEPS = 2.0
"""One that is computed, and one that waits ready beside it."""
_FULL = 0.9
_CHANGE = 1.1


@dataclass(slots=True)
class EngineWindow:
    """Sequences and tokens inside the engine: what the GPU computes now and what waits ready beside it.

    Taken when a micro-batch is handed over, given back when the engine returns it, whatever became of its lanes. The
    limit is so many steps' worth as keep steps full, at most `most_steps`: a micro-batch counts until the last of its
    sequences is back, and the next one takes its time from here to there.
    """

    step_sequences: int
    step_tokens: int
    most_steps: float = 1.0
    sequences: int = 0
    tokens: int = 0
    exclusive: bool = False
    refused: bool = False
    """Something ready did not fit since the last step."""
    steps: float = field(init=False)

    def __post_init__(self) -> None:
        self.steps = self.most_steps

    @property
    def limit_sequences(self) -> int:
        """The most sequences inside."""
        return int(self.step_sequences * self.steps)

    @property
    def limit_tokens(self) -> int:
        """The most tokens inside."""
        return int(self.step_tokens * self.steps)

    def step_returned(self, step: Step) -> None:
        """Widen while steps come back less than full although more was ready; narrow while more than one step waits.

        Caller: the engine. One that cannot tell of its steps leaves the window at its widest.
        """
        filled = max(step.sequences / self.step_sequences, step.tokens / self.step_tokens)
        # One step of what is left is being computed.
        waiting = max(step.left_sequences / self.step_sequences, step.left_tokens / self.step_tokens) - 1
        if filled < _FULL and self.refused:
            self.steps = min(self.most_steps, self.steps * _CHANGE)
        elif filled >= _FULL and waiting > 1:
            self.steps = max(min(_LEAST_STEPS, self.most_steps), self.steps / _CHANGE)
        self.refused = False

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
    def left_bytes(self) -> int:
        """What is left for everybody; not above 0 when a grant has cost more than was expected of it."""
        return self.limit_bytes - self.charged_bytes

    def room_bytes(self, lane_bytes: int) -> float:
        """How much more a lane that is charged `lane_bytes` may take; not above 0 when it has as much as it may.

        Alone it may come to `lane_share` of the limit. Beside others it may come to lane_share / (1 - lane_share) of
        what is left: so any number of lanes that are full, or stand still, leave something to one that is not.
        """
        return self.lane_share * self.left_bytes - (1 - self.lane_share) * lane_bytes
