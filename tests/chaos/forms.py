"""The drill of faults, once for each kind of engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tests.chaos.load import EMBEDDINGS, SCORES, Mix
from tests.chaos.plan import ANY_ENGINE, GAP_SECONDS, Fault


class Engine(StrEnum):
    """What the workers score with."""

    SCRIPTED = "scripted"
    VLLM = "vllm"


@dataclass(frozen=True, slots=True)
class Form:
    """What differs.

    `poisons`: requests that kill every engine. `running_seconds`: a worker that was started runs by then.
    `engine_stop_seconds`: the engine's own processes have ended by then.
    """

    workers: int
    requests_per_second: float
    mix: Mix
    faults: tuple[Fault, ...]
    gap_seconds: tuple[float, float]
    poisons: int
    running_seconds: float
    engine_stop_seconds: float
    catch_up_seconds: float
    settings: Mapping[str, object] = field(default_factory=dict)


ON_CPU: Mapping[str, object] = {
    "engine.kind": "vllm",
    "engine.dtype": "float32",
    "engine.max_num_seqs": 32,
    "engine.args": '{"enforce_eager": true}',
}
"""The real engine, as small as it gets."""


def reranker_settings(model: str) -> dict[str, object]:
    """Of the real engine with this reranker; where none is named, with a small one on CPU, which is made ready."""
    if model:
        return {"engine.kind": "vllm", "engine.model": model}
    from tests.models.minilm import minilm_cross_encoder  # noqa: PLC0415 -- its package is not on every machine

    return {**ON_CPU, "engine.model": minilm_cross_encoder()}


def form_of(engine: Engine) -> Form:
    """For this engine; the model of the real one is made ready."""
    if engine is Engine.SCRIPTED:
        return Form(
            workers=3,
            requests_per_second=150,
            mix=SCORES,
            faults=ANY_ENGINE,
            gap_seconds=GAP_SECONDS,
            poisons=2,
            running_seconds=120,
            engine_stop_seconds=0,
            catch_up_seconds=120,
        )
    from tests.models.minilm import minilm_embed  # noqa: PLC0415 -- its package is not on every machine

    # On two processors: an engine takes half a minute to start, and starves its neighbours meanwhile.
    return Form(
        workers=2,
        requests_per_second=20,
        mix=EMBEDDINGS,
        faults=(*ANY_ENGINE, Fault.KILL_ENGINE),
        gap_seconds=(5, 15),
        poisons=0,
        running_seconds=900,
        engine_stop_seconds=60,
        catch_up_seconds=900,
        settings={**ON_CPU, "engine.model": minilm_embed()},
    )
