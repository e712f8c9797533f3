"""Models with a trained head: cross-encoders (an encoder with one label), and classifiers of texts or of tokens."""

from __future__ import annotations

from collections.abc import Mapping

from consumer.model import decoders
from consumer.model.candidate import Candidate, Family
from consumer.model.card import ModelCard, ModelKind, Scale

_HEADS = {
    "BertForSequenceClassification": "classifier.weight",
    "ModernBertForSequenceClassification": "classifier.weight",
    "RobertaForSequenceClassification": "classifier.out_proj.weight",
    "XLMRobertaForSequenceClassification": "classifier.out_proj.weight",
    **dict.fromkeys(decoders.WITH_HEAD, decoders.HEAD),
}
"""Architecture -> the tensor whose rows are the labels."""
_OF_TOKENS = dict.fromkeys(
    (f"{family}ForTokenClassification" for family in ("Bert", "Roberta", "XLMRoberta", "ModernBert")),
    "classifier.weight",
)
"""The same of those whose labels are a token's."""
_SCALES = {"multi_label_classification": Scale.SIGMOID, "regression": Scale.LOGIT}
"""By transformers' `problem_type`, of several labels. One label is a relevance, whatever it was trained as."""


def _recognise(candidate: Candidate) -> ModelCard | None:
    of_tokens = candidate.architecture in _OF_TOKENS
    head = (_HEADS | _OF_TOKENS).get(candidate.architecture)
    if head is None:
        return None
    shape = candidate.files.tensor_shapes().get(head)
    causal = candidate.architecture in decoders.WITH_HEAD
    if causal and (shape is None or shape[0] == 1 or candidate.engine.reranker.template):
        return None  # a reranker, or meant to be one
    if shape is None:
        raise candidate.files.refuse(f"its weights have no {head}: there is no trained head, scores would be random")
    candidate.check_own_code()
    _check_activation(candidate)
    labels = labels_of(candidate, rows=shape[0])
    if of_tokens:
        return _of_tokens(candidate, labels, head)
    if len(labels) == 1:
        return candidate.card(ModelKind.CROSS_ENCODER, Scale.SIGMOID, labels=labels, head=head)
    scale = _SCALES.get(str(candidate.config.get("problem_type")), Scale.SOFTMAX)
    if not causal:
        return candidate.card(ModelKind.CLASSIFIER, scale, labels=labels, head=head)
    decoders.check_no_bias(candidate)
    traits = {"causal": True, "pooling": "LAST", "has_segments": False}
    return candidate.card(ModelKind.CLASSIFIER, scale, labels=labels, head=head, **traits)


def _check_activation(candidate: Candidate) -> None:
    """Raises SettingsInvalid where vLLM has GELU and config.json says something else (ModernBertPooler of 0.32.0)."""
    activation = candidate.config.get("classifier_activation", "gelu")
    if candidate.architecture == "ModernBertForSequenceClassification" and activation != "gelu":
        raise candidate.files.refuse(f"its classifier_activation {activation} is not supported, gelu is")


def _of_tokens(candidate: Candidate, labels: tuple[str, ...], head: str) -> ModelCard:
    """A token's labels exclude each other, whatever the `problem_type` says: so transformers has it."""
    card = candidate.card(ModelKind.TOKEN_CLASSIFIER, Scale.SOFTMAX, labels=labels, head=head)
    if card.lower_case:
        raise candidate.files.refuse("it lower-cases texts (do_lower_case), so its tokens have no place in them")
    return card


def labels_of(candidate: Candidate, *, rows: int) -> tuple[str, ...]:
    """One name per row of the head, in its order; transformers' LABEL_0, LABEL_1, ... where the model gives none.

    Raises SettingsInvalid for names that do not fit the head.
    """
    names = candidate.config.get("id2label")
    if names is None:
        names = {str(row): f"LABEL_{row}" for row in range(candidate.config.get("num_labels", 2))}
    expected = [str(row) for row in range(rows)]
    if not isinstance(names, Mapping) or sorted(map(str, names)) != sorted(expected):
        raise candidate.files.refuse(
            f"its head has {rows} rows, but config.json names {len(names)} labels: "
            f"give its `id2label` one name for each id from 0 to {rows - 1}"
        )
    by_id = {str(key): str(label) for key, label in names.items()}
    if twice := {label for label in by_id.values() if list(by_id.values()).count(label) > 1}:
        raise candidate.files.refuse(
            f"config.json names several of its labels {', '.join(sorted(twice))}: give each label of `id2label` a name "
            "of its own, because results name them"
        )
    return tuple(by_id[row] for row in expected)


FAMILY = Family((*_HEADS, *_OF_TOKENS), _recognise)
