"""A decoder reranker is recognised with its prompt, or refused: without it, its scores would only look right."""

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import SettingsInvalid
from consumer.model import recognise as recognition
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.files import ModelFiles
from consumer.model.recognise import recognise
from consumer.model.template import KNOWN
from consumer.sections import EngineSettings
from tests.unit.model.folders import BERT, HEAD, MEAN, model_folder

QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4,
    "vocab_size": 30,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}
CONVERTED = QWEN3 | {"architectures": ["Qwen3ForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
SCORE = {"score.weight": (1, 4)}
OWN = "<s>Q: {query}\nD: {document}\nRelevant?"


def card(folder: Path, *, args: dict | None = None, **reranker: Any) -> ModelCard:
    return recognise(EngineSettings(model=str(folder), reranker=reranker, args=args or {}))


def refusal(folder: Path, *, args: dict | None = None, **reranker: Any) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        card(folder, args=args, **reranker)
    return str(caught.value)


def test_a_published_qwen3_reranker_answers_by_the_difference_of_yes_and_no(tmp_path: Path):
    found = card(model_folder(tmp_path / "m", QWEN3), template="qwen3")
    assert (found.kind, found.scale, found.tasks) == (ModelKind.DECODER_RERANKER, Scale.SIGMOID, ("rerank", "score"))
    assert (found.pooling, found.shares_prefixes, found.has_segments) == ("LAST", True, False)
    assert found.template == KNOWN["qwen3"]
    assert found.head == "logit of 'yes' - logit of 'no'"
    assert found.engine_overrides == {
        "architectures": ["Qwen3ForSequenceClassification"],
        "classifier_from_token": ["no", "yes"],
        "method": "from_2_way_softmax",
    }


def test_a_converted_one_has_a_head_and_the_same_prompt(tmp_path: Path):
    found = card(model_folder(tmp_path / "m", CONVERTED, SCORE), template="qwen3")
    assert (found.kind, found.head, found.engine_overrides) == (ModelKind.DECODER_RERANKER, "score.weight", {})
    assert found.template is not None
    assert found.template.text == KNOWN["qwen3"].text
    assert found.template.answer_tokens == []


def test_a_prompt_and_tokens_of_ones_own_are_taken(tmp_path: Path):
    folder = model_folder(tmp_path / "m", QWEN3 | {"architectures": ["Qwen2ForCausalLM"]})
    two = card(folder, template=OWN, relevant_token="1", irrelevant_token="0")
    assert two.engine_overrides["classifier_from_token"] == ["0", "1"]
    one = card(folder, template=OWN, relevant_token="Yes")
    assert one.head == "logit of 'Yes'"
    assert one.engine_overrides["method"] == "no_post_processing"
    assert one.engine_overrides["classifier_from_token"] == ["Yes"]


def test_a_config_that_does_not_say_whether_the_head_is_the_embeddings_means_what_transformers_means(tmp_path: Path):
    silent = {name: value for name, value in QWEN3.items() if name != "tie_word_embeddings"}
    gemma = model_folder(tmp_path / "gemma", silent | {"architectures": ["GemmaForCausalLM"]})
    assert card(gemma, template=OWN, relevant_token="Yes").head == "logit of 'Yes'"
    assert "no lm_head.weight" in refusal(model_folder(tmp_path / "qwen3", silent), template="qwen3")


def test_the_instruction_is_the_templates_own_unless_set(tmp_path: Path):
    folder = model_folder(tmp_path / "m", QWEN3)
    for wanted, expected in ((None, KNOWN["qwen3"].instruction), ("Find it", "Find it")):
        template = card(folder, template="qwen3", instruction=wanted).template
        assert template is not None
        assert template.instruction == expected


def test_a_known_model_of_the_hub_needs_no_setting_but_a_folder_of_its_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = model_folder(tmp_path / "Qwen3-Reranker-0.6B", QWEN3)
    hub = ModelFiles("Qwen/Qwen3-Reranker-0.6B", folder, commit="abc")
    assert "engine.reranker.template" in refusal(folder)
    monkeypatch.setattr(recognition, "locate", lambda model, revision: hub)
    assert card(folder).template == KNOWN["qwen3"]


@pytest.mark.parametrize(
    ("config", "shapes", "reranker", "said"),
    [
        (CONVERTED, SCORE, {}, "needs its prompt"),
        (QWEN3, {}, {}, "needs its prompt: set engine.reranker.template"),
        (CONVERTED, {}, {"template": "qwen3"}, "no score.weight"),
        (CONVERTED | {"classifier_from_token": ["no", "yes"]}, {}, {}, "leave out engine.args.hf_overrides"),
        (CONVERTED, {"score.weight": (3, 4)}, {"template": "qwen3"}, "3 labels"),
        (CONVERTED, SCORE, {"template": OWN, "relevant_token": "yes"}, "leave out engine.reranker.relevant_token"),
        (QWEN3, {}, {"template": OWN}, "engine.reranker.relevant_token is empty"),
        (QWEN3 | {"tie_word_embeddings": False}, {}, {"template": "qwen3"}, "no lm_head.weight"),
        (QWEN3 | {"final_logit_softcapping": 30.0}, {}, {"template": "qwen3"}, "caps its logits"),
        (QWEN3, {}, {"template": "qwen"}, "must hold {query} and {document}"),
        (QWEN3, {}, {"template": "{document} {query}", "relevant_token": "a"}, "{document} must come after"),
        (QWEN3, {}, {"template": "{query} {query} {document}", "relevant_token": "a"}, "once each"),
        (QWEN3, {}, {"template": OWN, "relevant_token": "a", "instruction": "x"}, "engine.reranker.instruction: leave"),
        (QWEN3, {}, {"template": "{instruction}" + OWN, "relevant_token": "a"}, "engine.reranker.instruction is empty"),
        (
            HEAD | {"id2label": {"0": "r"}},
            {"classifier.weight": (1, 4)},
            {"template": "qwen3"},
            "leave out engine.reranker",
        ),
        (BERT, {}, {"instruction": "x"}, "leave out engine.reranker"),
    ],
)
def test_what_would_score_wrong_is_refused_with_the_fix(
    tmp_path: Path, config: dict, shapes: dict, reranker: dict, said: str
):
    files = MEAN if config is BERT else None
    assert said in refusal(model_folder(tmp_path / "m", config, shapes, files), **reranker)


def test_the_fingerprint_covers_prompt_instruction_and_answers(tmp_path: Path):
    folder = model_folder(tmp_path / "m", QWEN3)
    settings = [
        {"template": "qwen3"},
        {"template": "qwen3", "instruction": "Find it"},
        {"template": "qwen3", "relevant_token": "no", "irrelevant_token": "yes"},
        {"template": "qwen3", "relevant_token": "yes"},
        {"template": OWN, "relevant_token": "yes", "irrelevant_token": "no"},
    ]
    assert len({card(folder, **reranker).fingerprint for reranker in settings}) == len(settings)
    assert card(folder, **settings[0]).fingerprint == card(folder, **settings[0]).fingerprint


def test_check_can_print_what_was_recognised(tmp_path: Path):
    described = json.loads(json.dumps(card(model_folder(tmp_path / "m", QWEN3), template="qwen3").describe()))
    assert json.loads(described["template"]) == KNOWN["qwen3"].text
    assert described["instruction"] == KNOWN["qwen3"].instruction
    assert described["head"] == "logit of 'yes' - logit of 'no'"
    assert (described["kind"], described["pooling"], described["scale"]) == ("decoder_reranker", "LAST", "sigmoid")
