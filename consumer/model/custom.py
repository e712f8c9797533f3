"""Models that nothing is known of here, which vLLM has of itself or from a plugin: an IO processor asks and reads them.

Pooling, head and template are then the processor's matter, so none of the other tasks is offered.
"""

from __future__ import annotations

from consumer.model.candidate import Candidate
from consumer.model.card import ModelCard, ModelKind, Scale


def custom_card(candidate: Candidate) -> ModelCard:
    """The card of any model. vLLM refuses at start what it does not know. Raises SettingsInvalid as Candidate.card."""
    candidate.files.tensor_shapes()  # refuses weights that cannot be read
    return candidate.card(ModelKind.CUSTOM, Scale.LOGIT)
