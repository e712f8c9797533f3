"""A model is recognised from its files, or refused with the setting, what was seen, and the fix."""

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import SettingsInvalid
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.recognise import recognise
from consumer.sections import EngineSettings
from tests.unit.model.folders import BERT, HEAD, MEAN, model_folder, write_safetensors

ONE_ROW = {"classifier.weight": (1, 4)}
THREE_ROWS = {"classifier.weight": (3, 4)}
THREE = {"id2label": {"0": "bad", "1": "so so", "2": "good"}}


def card(folder: Path, **settings: Any) -> ModelCard:
    return recognise(EngineSettings(model=str(folder), **settings))


def refusal(folder: Path, **settings: Any) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        card(folder, **settings)
    return str(caught.value)


def test_minilm_is_an_embedder_of_256_tokens_by_mean(minilm_embed: Path):
    found = card(minilm_embed)
    assert found.kind is ModelKind.EMBEDDING
    assert found.tasks == ("rerank", "score", "embed")
    assert (found.pooling, found.usable_tokens, found.hidden_size) == ("MEAN", 256, 384)
    assert (found.scale, found.dimensions, found.has_segments) == (Scale.COSINE, (), True)


def test_one_label_is_a_cross_encoder_and_several_are_a_classifier(minilm_cross_encoder: Path, minilm_classifier: Path):
    one, several = card(minilm_cross_encoder), card(minilm_classifier)
    assert (one.kind, one.scale, one.labels) == (ModelKind.CROSS_ENCODER, Scale.SIGMOID, ("relevance",))
    assert (several.kind, several.scale) == (ModelKind.CLASSIFIER, Scale.SOFTMAX)
    assert several.labels == ("negative", "neutral", "positive")
    assert one.usable_tokens == several.usable_tokens == 512


def test_the_name_is_the_folders_unless_names_are_set(tmp_path: Path):
    folder = model_folder(tmp_path / "my-model", BERT, files=MEAN)
    assert (card(folder).name, card(folder).served_names) == ("my-model", ("my-model",))
    assert card(folder, served_names=("a", "b")).served_names == ("a", "b")


def test_a_summary_can_be_printed(tmp_path: Path):
    described = card(model_folder(tmp_path / "m", HEAD | THREE, THREE_ROWS)).describe()
    assert described["tasks"] == ["classify"]
    assert described["labels"] == ["bad", "so so", "good"]
    assert len(described["fingerprint"]) == 32


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "CLS"),
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, "LAST"),
        ({"pooling_mode": "mean", "embedding_dimension": 4}, "MEAN"),
        ({"pooling_mode": ["cls"]}, "CLS"),
    ],
)
def test_pooling_is_read_in_the_old_and_the_new_form(tmp_path: Path, pooling: dict, expected: str):
    assert card(model_folder(tmp_path, BERT, files=MEAN | {"1_Pooling/config.json": pooling})).pooling == expected


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        {"pooling_mode_max_tokens": True},
        {"pooling_mode": ["mean", "cls"]},
        {"pooling_mode": "weightedmean"},
    ],
)
def test_a_pooling_that_the_engine_cannot_do_is_refused(tmp_path: Path, pooling: dict):
    assert "pooling" in refusal(model_folder(tmp_path, BERT, files=MEAN | {"1_Pooling/config.json": pooling}))


def test_pooling_is_never_guessed_but_may_be_configured(tmp_path: Path):
    folder = model_folder(tmp_path, BERT)
    assert "seq_pooling_type" in refusal(folder)
    assert card(folder, args={"pooler_config": {"seq_pooling_type": "CLS"}}).pooling == "CLS"
    assert card(folder, args={"pooler_config": {"pooling_type": "MEAN"}}).pooling == "MEAN"
    assert "STEP" in refusal(folder, args={"pooler_config": {"pooling_type": "STEP"}})


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        ({}, {}, 16),
        ({}, {"tokenizer_config.json": {"model_max_length": 12}}, 12),
        ({}, {"tokenizer_config.json": {"model_max_length": 10**30}}, 16),
        ({}, {"tokenizer_config.json": {"model_max_length": 99}}, 16),
        ({}, {"sentence_bert_config.json": {"max_seq_length": 8}}, 8),
        ({}, {"sentence_bert_config.json": {"max_seq_length": 99}}, 16),
        ({}, {"sentence_bert_config.json": {"max_seq_length": None}}, 16),
        (
            {},
            {"sentence_bert_config.json": {"max_seq_length": 14}, "tokenizer_config.json": {"model_max_length": 9}},
            14,
        ),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, {}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514}, {}, 512),
    ],
)
def test_the_usable_length_is_what_positions_and_the_authors_allow(
    tmp_path: Path, config: dict, files: dict, expected: int
):
    folder = model_folder(tmp_path, BERT | config, files=MEAN | files)
    assert card(folder).usable_tokens == expected
    assert card(folder, max_model_len=5).usable_tokens == 5
    assert f"at most {expected}" in refusal(folder, max_model_len=expected + 1)


def test_segments_need_token_types_in_the_model(tmp_path: Path):
    assert card(model_folder(tmp_path / "a", BERT, files=MEAN)).has_segments
    assert not card(model_folder(tmp_path / "b", BERT | {"type_vocab_size": 1}, files=MEAN)).has_segments


def test_labels_are_in_the_heads_order_and_must_fit_it(tmp_path: Path):
    shuffled = HEAD | {"id2label": {"2": "c", "0": "a", "1": "b"}}
    assert card(model_folder(tmp_path / "a", shuffled, THREE_ROWS)).labels == ("a", "b", "c")
    plain = HEAD | {"num_labels": 3}
    assert card(model_folder(tmp_path / "b", plain, THREE_ROWS)).labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    two = HEAD | {"id2label": {"0": "a", "1": "b"}, "num_labels": 50}
    assert "3 rows" in refusal(model_folder(tmp_path / "c", two, THREE_ROWS))
    assert "3 rows" in refusal(model_folder(tmp_path / "d", HEAD, THREE_ROWS))
    gap = HEAD | {"id2label": {"0": "a", "1": "b", "3": "c"}}
    assert "3 rows" in refusal(model_folder(tmp_path / "e", gap, THREE_ROWS))
    assert "3 rows" in refusal(model_folder(tmp_path / "f", HEAD | {"id2label": ["a", "b", "c"]}, THREE_ROWS))


def test_the_problem_type_decides_the_scale_of_several_labels(tmp_path: Path):
    for problem, scale in (("multi_label_classification", Scale.SIGMOID), ("regression", Scale.LOGIT)):
        assert card(model_folder(tmp_path, HEAD | THREE | {"problem_type": problem}, THREE_ROWS)).scale is scale
    single = HEAD | {"id2label": {"0": "relevance"}, "problem_type": "regression"}
    assert card(model_folder(tmp_path, single, ONE_ROW)).scale is Scale.SIGMOID


def test_a_classifier_without_a_trained_head_is_refused(tmp_path: Path):
    assert "no trained head" in refusal(model_folder(tmp_path, HEAD | THREE))


@pytest.mark.parametrize(
    ("architecture", "config", "said"),
    [
        *(
            (name, {}, "")
            for name in (
                *("DebertaV2ForSequenceClassification", "DistilBertForSequenceClassification", "DistilBertModel"),
                *("ElectraForSequenceClassification", "AlbertModel", "MPNetModel", "T5EncoderModel"),
                *("GptOssForCausalLM", "Phi3ForCausalLM", "Gemma2ForCausalLM", "MistralForCausalLM", "MistralModel"),
                *("GPT2ForSequenceClassification", "Qwen3MoeForSequenceClassification", "Gemma3TextModel"),
                *("ColBERTLfm2Model", "DebertaV2ForTokenClassification", "JinaForRanking"),
            )
        ),
        ("BertForMaskedLM", {}, "no head that scores"),
        ("Qwen2ForRewardModel", {}, "a reward per token or step"),
        ("Qwen2ForProcessRewardModel", {}, "a reward per token or step"),
        ("Qwen3VLForConditionalGeneration", {"vision_config": {"depth": 1}}, "images or sound"),
        ("Qwen2AudioForConditionalGeneration", {"audio_config": {"depth": 1}}, "images or sound"),
        ("Phi3VForCausalLM", {"img_processor": {"name": "clip"}}, "images or sound"),
        ("T5ForConditionalGeneration", {"is_encoder_decoder": True}, "encoder-decoder"),
        ("BartForSequenceClassification", {"is_encoder_decoder": True}, "encoder-decoder"),
        ("NomicBertModel", {"auto_map": {"AutoModel": "m.M"}}, "auto_map"),
        ("NewForSequenceClassification", {"auto_map": {"AutoModel": "m.M"}}, "auto_map"),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"reranker": {"template": "qwen3"}}])
def test_an_architecture_that_is_not_supported_is_refused_with_those_that_are(
    tmp_path: Path, architecture: str, config: dict, said: str, settings: dict
):
    text = refusal(model_folder(tmp_path, BERT | {"architectures": [architecture]} | config, ONE_ROW), **settings)
    assert f"this architecture is not supported: {architecture}" in text
    assert said in text
    assert (said == "") == (f"{architecture}. Supported are HF_ColBERT, BertModel" in text)
    assert "docs/models.md" in text
    assert "prompt" not in text.replace("by their prompt, with raw_scores", "")


def test_matryoshka_models_take_dimensions(tmp_path: Path):
    assert card(model_folder(tmp_path, BERT | {"is_matryoshka": True}, files=MEAN)).dimensions == range(1, 5)
    assert card(model_folder(tmp_path, BERT | {"matryoshka_dimensions": [2, 4]}, files=MEAN)).dimensions == [2, 4]
    folder = model_folder(tmp_path, BERT, files=MEAN)
    assert card(folder).dimensions == ()
    assert card(folder, args={"hf_overrides": {"is_matryoshka": True}}).dimensions == range(1, 5)


def test_the_fingerprint_changes_with_everything_that_scores_depend_on(tmp_path: Path):
    folder = model_folder(tmp_path / "m", BERT, files=MEAN)
    first = card(folder).fingerprint
    assert card(model_folder(tmp_path / "copy", BERT, files=MEAN)).fingerprint == first
    assert card(folder, max_num_seqs=8, served_names=("x",)).fingerprint == first
    others = [
        card(folder, dtype="bfloat16").fingerprint,
        card(folder, max_model_len=8).fingerprint,
        card(folder, args={"quantization": "fp8"}).fingerprint,
        card(folder, args={"pooler_config": {"seq_pooling_type": "CLS"}}).fingerprint,
    ]
    write_safetensors(folder / "model.safetensors", {"embeddings.weight": (30, 4)}, fill=b"\1")
    others.append(card(folder).fingerprint)
    assert len({first, *others}) == 6


SENTENCE_FILES = MEAN | {
    "modules.json": [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "projection", "type": "sentence_transformers.models.Dense"},
    ],
    "projection/config.json": {
        "in_features": 4,
        "out_features": 3,
        "bias": False,
        "activation_function": "torch.nn.modules.activation.Tanh",
    },
}


def with_projection(folder: Path, fill: bytes = b"\0") -> Path:
    model_folder(folder, BERT, files=SENTENCE_FILES)
    write_safetensors(folder / "projection" / "model.safetensors", {"linear.weight": (3, 4)}, fill)
    return folder


def test_the_fingerprint_changes_with_every_file_that_numbers_depend_on(tmp_path: Path):
    first = card(with_projection(tmp_path / "m")).fingerprint
    assert card(with_projection(tmp_path / "copy")).fingerprint == first
    seen = {first, card(with_projection(tmp_path / "other weights", fill=b"\1")).fingerprint}
    for number, (file, content) in enumerate(
        [
            ("projection/config.json", SENTENCE_FILES["projection/config.json"] | {"activation_function": "ReLU"}),
            ("modules.json", SENTENCE_FILES["modules.json"][:2]),
            ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
            ("sentence_bert_config.json", {"do_lower_case": True}),
            ("sentence_xlm-roberta_config.json", {"do_lower_case": True}),
            ("special_tokens_map.json", {"mask_token": "[MASK]"}),
            ("added_tokens.json", {"<new>": 29}),
            ("tokenizer_config.json", {"do_lower_case": False}),
            ("config_sentence_transformers.json", {"similarity_fn_name": "cosine"}),
        ]
    ):
        folder = with_projection(tmp_path / str(number))
        (folder / file).write_text(json.dumps(content))
        seen.add(card(folder).fingerprint)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert len(seen | {card(folder).fingerprint}) == 12


def test_the_fingerprint_does_not_change_with_what_only_people_read(tmp_path: Path):
    folder = with_projection(tmp_path / "m")
    first = card(folder).fingerprint
    (folder / "README.md").write_text("# A model")
    (folder / "projection" / "README.md").write_text("# A module")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}")
    assert card(folder).fingerprint == first


def test_the_fingerprint_changes_with_every_engine_argument_but_those_known_to_leave_numbers_alone(tmp_path: Path):
    folder = model_folder(tmp_path / "m", BERT, files=MEAN)
    first = card(folder).fingerprint
    same = {"gpu_memory_utilization": 0.5, "async_scheduling": True, "served_model_name": "x", "hf_token": "secret"}
    assert card(folder, args=same).fingerprint == first
    counted: list[dict[str, Any]] = [
        {"kv_cache_dtype": "fp8"},
        {"attention_backend": "TRITON_ATTN"},
        {"model_impl": "transformers"},
        {"load_format": "dummy"},
        {"enforce_eager": True},
        {"an_argument_of_a_later_release": 1},
    ]
    assert len({first, *(card(folder, args=args).fingerprint for args in counted)}) == len(counted) + 1


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"])
def test_the_length_that_sentence_transformers_states_is_read_from_each_of_its_file_names(tmp_path: Path, kind: str):
    files = MEAN | {f"sentence_{kind}_config.json": {"max_seq_length": 7}}
    assert card(model_folder(tmp_path, BERT, files=files)).usable_tokens == 7


def test_the_first_of_sentence_transformers_files_that_says_anything_counts(tmp_path: Path):
    files = {"sentence_bert_config.json": {}, "sentence_roberta_config.json": {"max_seq_length": 7}}
    files |= {"sentence_xlnet_config.json": {"max_seq_length": 5}}
    assert card(model_folder(tmp_path, BERT, files=MEAN | files)).usable_tokens == 7


def test_unreadable_files_are_refused_by_name(tmp_path: Path):
    folder = model_folder(tmp_path / "m", BERT, files=MEAN)
    (folder / "model.safetensors").write_bytes(b"PK\x03\x04 not safetensors at all")
    assert "model.safetensors" in refusal(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80")
    assert "safetensors" in refusal(folder)
    (folder / "config.json").write_text("{")
    assert "config.json" in refusal(folder)
    (folder / "config.json").unlink()
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize(
    "broken",
    [{"architectures": None}, {"architectures": []}, {"vocab_size": "30"}, {"hidden_size": 0}],
)
def test_a_config_that_does_not_say_what_it_must_is_refused(tmp_path: Path, broken: dict):
    (name,) = broken
    assert name in refusal(model_folder(tmp_path, BERT | broken, files=MEAN))


def test_a_model_that_is_nowhere_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "no such folder" in refusal(Path("nobody/no-such-model"))
    assert "no such folder" in refusal(Path("/no/such/folder"))
