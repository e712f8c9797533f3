"""The pure path, from a record's bytes to the answer's, for one model of each kind, with made-up engine outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import structlog
from tokenizers import Tokenizer

from consumer.interfaces import EncodedText, Task
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.token_vectors import TokenVectors
from consumer.records import (
    EngineInput,
    EngineOutput,
    InputRejected,
    ModelIdentity,
    Outcome,
    Pooling,
    Prepared,
    Refusal,
)
from consumer.records import SourceRecord as Record
from consumer.sections import LimitSettings
from consumer.stages.answer import Answerer, AnswerLimits
from consumer.stages.prepare import Preparer
from consumer.tasks import tasks_for
from consumer.tokenization import ModelTokenizer
from schemas.errors import ErrorCode
from schemas.wire import RequestLimits, parse_result
from tests.fuzz.payloads import MARKER
from tests.models.byte_pairs import build_tokenizer
from tests.models.minilm import minilm_embed

MAX_ERROR_BYTES = 4000
MAX_RESULT_BYTES = 30_000
SIZE = 4
LABELS = ("one", "two", "three")
TIMINGS = dict.fromkeys(("queue", "prepare", "engine", "emit", "total"), 0.1)

_CARD = ModelCard(
    kind=ModelKind.CROSS_ENCODER,
    name="fuzz",
    served_names=("fuzz",),
    revision=None,
    folder=Path("fuzz"),
    architecture="Fuzz",
    digest="0",
    dtype="float32",
    usable_tokens=48,
    vocabulary_size=40_000,
    hidden_size=SIZE,
    scale=Scale.SIGMOID,
    labels=("relevance",),
    has_segments=True,
)
_EMBEDDER = replace(_CARD, kind=ModelKind.EMBEDDING, scale=Scale.COSINE, labels=(), pooling="MEAN")
CARDS: Mapping[str, ModelCard] = {
    "cross-encoder": _CARD,
    "classifier": replace(_CARD, kind=ModelKind.CLASSIFIER, scale=Scale.SOFTMAX, labels=LABELS),
    "token classifier": replace(_CARD, kind=ModelKind.TOKEN_CLASSIFIER, scale=Scale.SOFTMAX, labels=LABELS),
    "embedder": replace(_EMBEDDER, dimensions=(2, 4), query_prompt="query: ", document_prompt="passage: "),
    "decoder": replace(_EMBEDDER, pooling="LAST", has_segments=False),
    "late interaction": replace(
        _EMBEDDER,
        kind=ModelKind.LATE_INTERACTION,
        scale=Scale.MAXSIM,
        pooling=None,
        token_vectors=TokenVectors("[unused0]", "[unused1]", 32, "[MASK]", (".", ",")),
    ),
}


class Broke(AssertionError):
    """A law that does not hold, with the payload for which it does not."""


class _Compared(ModelTokenizer):
    """What is remembered of words makes no difference."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        encoded = super().encode(texts)
        own = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        for text, one, expected in zip(texts, encoded, own, strict=True):
            if one.ids != expected.ids:
                raise Broke(f"token ids {one.ids} in the place of {expected.ids} of {text!r}")
        return encoded


@dataclass
class OnePath:
    """One kind of model. `codes`: how often each ending came, `ok` among them."""

    kind: str
    random: np.random.Generator
    codes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        card = CARDS[self.kind]
        tokenizer = _Compared(
            _byte_pairs() if self.kind == "decoder" else Tokenizer.from_file(str(minilm_embed() / "tokenizer.json")),
            has_segments=card.has_segments,
            with_offsets=card.kind is ModelKind.TOKEN_CLASSIFIER,
            token_vectors=card.token_vectors,
        )
        tasks: Mapping[str, Task] = tasks_for(card, tokenizer, LimitSettings(max_text_bytes=4000))
        self.tasks = card.tasks
        identity = ModelIdentity(card.name, card.revision, card.fingerprint)
        limits = AnswerLimits(MAX_RESULT_BYTES, MAX_RESULT_BYTES, 60, "fuzz", "0")
        self._preparer = Preparer(tasks, tokenizer, card.served_names, RequestLimits(max_items=20))
        self._answerer = Answerer(tasks, identity, limits)
        self._labels = len(card.labels)

    def run(self, records: Sequence[Record]) -> None:
        """All of a batch, from bytes to bytes. Raises Broke."""
        for record, prepared in zip(records, self._preparer.prepare(records, now_unix_ms=0), strict=True):
            if isinstance(prepared, Refusal):
                outcome: Any = self._answerer.refuse(record, 1, prepared)
            else:
                assert isinstance(prepared, Prepared)
                outputs = [self._output(one) for one in prepared.inputs]
                outcome = self._answerer.answer(record, 1, prepared, outputs)
            self._judge(record, outcome)

    def _output(self, one: EngineInput) -> EngineOutput:
        """Mostly numbers, sometimes such as no model should give."""
        tokens, labels = len(one.token_ids), self._labels
        assert isinstance(one.pooling, Pooling)
        shape: tuple[int, ...] = {
            Pooling.EMBED: (SIZE,),
            Pooling.CLASSIFY: (labels,),
            Pooling.TOKEN_EMBED: (tokens, SIZE),
            Pooling.TOKEN_CLASSIFY: (tokens, labels),
        }[one.pooling]
        numbers = self.random.standard_normal(shape, dtype=np.float32)
        match self.random.integers(40):
            case 0:
                return InputRejected(ErrorCode.ENGINE_REJECTED, "refused")
            case 1:
                numbers[...] = 0
            case 2:
                numbers.flat[0] = self.random.choice([np.nan, np.inf, -np.inf, 3e38])
        return numbers

    def _judge(self, record: Record, outcome: Outcome) -> None:
        code = outcome.code.value if outcome.code else "ok"
        self.codes[code] = self.codes.get(code, 0) + 1
        if code == ErrorCode.INTERNAL.value:
            raise Broke(f"internal fault of a {self.kind} on {record.value!r}")
        if outcome.result is None:
            if outcome.dead_letter is None:
                raise Broke(f"no answer at all to {record.value!r}")
            return
        value = outcome.result.finish(TIMINGS, 10**12)
        result, error = parse_result(value), orjson.dumps(orjson.loads(value).get("error"))
        if len(value) > MAX_RESULT_BYTES or len(error) >= MAX_ERROR_BYTES:
            raise Broke(f"{len(value)} bytes, of which {len(error)} of error, on {record.value!r}")
        if MARKER.encode() in error or any(one.error and MARKER in one.error.message for one in result.results):
            raise Broke(f"{error!r} repeats the request {record.value!r}")
        if result.status != ("ok" if code == "ok" else "error"):
            raise Broke(f"status {result.status} for {code} on {record.value!r}")


def _byte_pairs() -> Tokenizer:
    with TemporaryDirectory() as folder:
        build_tokenizer(Path(folder))
        return Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))


def listen() -> list[str]:
    """What the worker logs from now on, in place of printing it."""
    lines: list[str] = []

    def keep(_logger: Any, _level: str, event: Any) -> Any:
        lines.append(repr(dict(event)))
        raise structlog.DropEvent

    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    return lines
