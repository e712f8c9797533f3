"""The tasks, one file each.

A new one is a file with a class of the shape `consumer.interfaces.Task`, a line in `_TASKS`, and its name beside the
kinds of model that can do it (`consumer.model.card.TASKS`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from consumer.interfaces import Processor, Task, TextEncoder
from consumer.model.card import ModelCard
from consumer.sections import LimitSettings
from consumer.tasks.classify import classifier_for
from consumer.tasks.embed import Embed
from consumer.tasks.plugin import Plugin
from consumer.tasks.rerank import Rerank
from consumer.tasks.score import Score

_TASKS: Mapping[str, Callable[[ModelCard, TextEncoder, LimitSettings], Any]] = {
    "rerank": Rerank,
    "score": Score,
    "classify": classifier_for,
    "embed": Embed,
}
"""Wire name -> task. Any, because each takes its own kind of request: the wire name is what tells them apart."""


def tasks_for(
    card: ModelCard, encoder: TextEncoder, limits: LimitSettings, processors: Mapping[str, Processor] | None = None
) -> Mapping[str, Task]:
    """The tasks that this model can do, by their wire names; `plugin` where there are IO processors."""
    tasks: dict[str, Any] = {name: _TASKS[name](card, encoder, limits) for name in card.tasks}
    if processors:
        tasks["plugin"] = Plugin(processors)
    return tasks
