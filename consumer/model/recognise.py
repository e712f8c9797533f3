"""From `engine.model` to a card: every family of models is asked, in turn."""

from __future__ import annotations

from collections.abc import Mapping

from consumer.io_processors import chosen_io_processors
from consumer.model import decoders, embeddings, heads, late_interaction
from consumer.model.candidate import Candidate
from consumer.model.card import ModelCard, ModelKind
from consumer.model.custom import custom_card
from consumer.model.files import locate
from consumer.model.unsupported import not_supported
from consumer.sections import EngineSettings, RerankerSettings

FAMILIES = (late_interaction.FAMILY, embeddings.FAMILY, heads.FAMILY, decoders.FAMILY)
"""The first that knows a model describes it."""


def recognise(engine: EngineSettings) -> ModelCard:
    """Find out what `engine.model` is. Blocking: it may download, and reads all weights once for the fingerprint.

    Raises SettingsInvalid, with the fix, for a model that is not recognised or whose files contradict each other.
    """
    engine.require_model()
    files = locate(engine.model, engine.revision)
    files.check_adapter()
    overrides = engine.args.get("hf_overrides", {})
    if not isinstance(overrides, Mapping):
        raise files.refuse("engine.args.hf_overrides must be an object")
    candidate = Candidate(files, files.config() | dict(overrides), engine)
    for family in FAMILIES:
        if card := family.recognise(candidate):
            if engine.reranker != RerankerSettings() and card.template is None:
                raise files.refuse(f"leave out engine.reranker: {card.architecture} takes no prompt")
            if (engine.query_prompt, engine.document_prompt) != (None, None) and card.kind is not ModelKind.EMBEDDING:
                raise files.refuse(
                    f"leave out engine.query_prompt and engine.document_prompt: {card.architecture} is no embedder"
                )
            if not engine.query_expansion and card.token_vectors is None:
                raise files.refuse(f"leave out engine.query_expansion: {card.architecture} has no late interaction")
            return card
    if chosen_io_processors(engine):
        return custom_card(candidate)
    known = (name for family in FAMILIES for name in family.architectures)
    raise files.refuse(not_supported(candidate, known))
