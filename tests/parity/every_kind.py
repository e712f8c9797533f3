"""All kinds of models that are compared with transformers."""

from tests.parity.embedders import EMBEDDERS
from tests.parity.heads import HEADS
from tests.parity.kinds import KINDS
from tests.parity.late_interaction import LATE_INTERACTION
from tests.parity.token_classifiers import TOKEN_CLASSIFIERS

EVERY_KIND = (*KINDS, *EMBEDDERS, *HEADS, *LATE_INTERACTION, *TOKEN_CLASSIFIERS)
