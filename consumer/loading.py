"""From settings to a model: its card and its tokenizer first, which is quick; then the engine, which is not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consumer.interfaces import ScoringEngine, TextEncoder
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.recognise import recognise
from consumer.sections import EngineKind, EngineSettings


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What is known of a model without its engine."""

    card: ModelCard
    encoder: TextEncoder


def load_model(engine: EngineSettings) -> LoadedModel:
    """Recognise the model and load its tokenizer. Blocking. Raises SettingsInvalid, with the fix."""
    if engine.kind is EngineKind.SCRIPTED:
        from consumer.adapters.scripted_engine import ScriptedEncoder  # noqa: PLC0415 -- only for drills

        return LoadedModel(scripted_card(engine), ScriptedEncoder())
    from consumer.tokenization import load_tokenizer  # noqa: PLC0415 -- heavy

    card = recognise(engine)
    encoder = load_tokenizer(
        card.folder, has_segments=card.has_segments, lower_case=card.lower_case, template=card.template
    )
    return LoadedModel(card, encoder)


async def start_engine(engine: EngineSettings, card: ModelCard) -> tuple[ScoringEngine, ModelCard]:
    """A warm engine, and the card as it now is: the engine chose the dtype. Raises SettingsInvalid."""
    if engine.kind is EngineKind.SCRIPTED:
        from consumer.adapters.scripted_engine import ScriptedEngine  # noqa: PLC0415 -- only for drills

        return ScriptedEngine(engine), card
    from consumer.adapters.vllm_start import start_vllm  # noqa: PLC0415 -- heavy

    started = await start_vllm(engine, card)
    return started, started.card


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
