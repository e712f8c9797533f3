"""Heads: what the numbers of a head mean, and which heads are refused."""

from pathlib import Path

import pytest

from consumer.model.card import ModelKind, Scale
from tests.unit.model.folders import HEAD, model_folder
from tests.unit.model.test_model_card import card, refusal

NAMES = {"id2label": {"0": "bad", "1": "so so", "2": "good"}}
DECODER = HEAD | {"architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3"}


@pytest.mark.parametrize(
    ("problem_type", "several"),
    [
        (None, Scale.SOFTMAX),
        ("single_label_classification", Scale.SOFTMAX),
        ("multi_label_classification", Scale.SIGMOID),
        ("regression", Scale.LOGIT),
    ],
)
def test_the_scale_of_several_labels_is_that_of_what_they_were_trained_for(
    tmp_path: Path, problem_type: str | None, several: Scale
):
    stated = {"problem_type": problem_type}
    for architecture, tensor in ((HEAD, "classifier.weight"), (DECODER, "score.weight")):
        folder = model_folder(tmp_path / tensor, architecture | NAMES | stated, {tensor: (3, 4)})
        assert card(folder).scale is several


def test_a_decoder_with_several_labels_classifies_and_does_nothing_else(tmp_path: Path):
    found = card(model_folder(tmp_path, DECODER | NAMES, {"score.weight": (3, 4)}))
    assert (found.kind, found.tasks, found.labels) == (ModelKind.CLASSIFIER, ("classify",), ("bad", "so so", "good"))
    assert (found.pooling, found.causal, found.has_segments) == ("LAST", True, False)


def test_a_decoder_with_one_label_still_needs_its_prompt(tmp_path: Path):
    folder = model_folder(tmp_path, DECODER | {"num_labels": 1}, {"score.weight": (1, 4)})
    assert "engine.reranker.template" in refusal(folder)


def test_labels_that_do_not_fit_a_decoders_head_are_refused(tmp_path: Path):
    folder = model_folder(tmp_path, DECODER | NAMES, {"score.weight": (5, 4)})
    assert "5 rows" in refusal(folder)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "XLMRoberta", "ModernBert"])
def test_a_head_on_tokens_classifies_tokens_by_softmax(tmp_path: Path, family: str):
    config = HEAD | NAMES | {"architectures": [f"{family}ForTokenClassification"]}
    found = card(model_folder(tmp_path, config | {"problem_type": "regression"}, {"classifier.weight": (3, 4)}))
    assert (found.kind, found.tasks, found.scale) == (ModelKind.TOKEN_CLASSIFIER, ("classify",), Scale.SOFTMAX)
    assert found.labels == ("bad", "so so", "good")


def test_a_head_on_tokens_whose_labels_do_not_fit_or_whose_texts_change_is_refused(tmp_path: Path):
    config = HEAD | NAMES | {"architectures": ["BertForTokenClassification"]}
    assert "5 rows" in refusal(model_folder(tmp_path / "a", config, {"classifier.weight": (5, 4)}))
    lower = {"sentence_bert_config.json": {"do_lower_case": True}}
    assert "do_lower_case" in refusal(model_folder(tmp_path / "b", config, {"classifier.weight": (3, 4)}, lower))


ENCODER_HEAD = {"classifier.out_proj.weight": (3, 4)}


@pytest.mark.parametrize(
    ("architecture", "shapes", "settings"),
    [
        ("BertModel", {}, {}),
        ("RobertaForSequenceClassification", ENCODER_HEAD, {}),
        ("XLMRobertaForSequenceClassification", ENCODER_HEAD, {}),
        ("BertForTokenClassification", {"classifier.weight": (3, 4)}, {}),
        ("Qwen2ForSequenceClassification", {"score.weight": (3, 4)}, {}),
        ("Qwen2ForSequenceClassification", {"score.weight": (1, 4)}, {"reranker": {"template": "qwen3"}}),
    ],
)
def test_positions_that_are_not_absolute_and_code_of_their_own_are_refused(
    tmp_path: Path, architecture: str, shapes: dict, settings: dict
):
    config = HEAD | NAMES | {"architectures": [architecture]}
    for name, stated in (("position_embedding_type", "relative_key"), ("auto_map", {"AutoModel": "m.M"})):
        assert name in refusal(model_folder(tmp_path / name, config | {name: stated}, shapes), **settings)


def test_an_activation_in_the_head_that_vllm_does_not_read_is_refused(tmp_path: Path):
    config = HEAD | NAMES | {"architectures": ["ModernBertForSequenceClassification"], "classifier_activation": "silu"}
    folder = model_folder(tmp_path, config, {"classifier.weight": (3, 4)})
    assert "classifier_activation silu" in refusal(folder)


def test_labels_that_have_one_name_are_refused_because_nobody_could_tell_them_apart(tmp_path: Path):
    twice = {"id2label": {"0": "bad", "1": "good", "2": "good"}}
    text = refusal(model_folder(tmp_path, HEAD | twice, {"classifier.weight": (3, 4)}))
    assert "good" in text
    assert "bad" not in text
    assert "id2label" in text


def test_a_bias_of_a_decoders_head_is_refused_because_transformers_ignores_it_and_vllm_adds_it(tmp_path: Path):
    several = {"score.weight": (3, 4), "score.bias": (3,)}
    assert "score.bias" in refusal(model_folder(tmp_path / "several", DECODER | NAMES, several))
    one = {"score.weight": (1, 4), "score.bias": (1,)}
    reranker = {"template": "qwen3"}
    assert "score.bias" in refusal(model_folder(tmp_path / "one", DECODER | {"num_labels": 1}, one), reranker=reranker)
    whole = DECODER | {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True}
    shapes = {"score.bias": (1,)}
    assert "score.bias" in refusal(model_folder(tmp_path / "whole", whole, shapes), reranker=reranker)
