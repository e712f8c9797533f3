"""The test models are what their names say, and the same on every machine."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.models import minilm

HEADS = {"minilm-ce-1": ("relevance",), "minilm-cls-3": ("negative", "neutral", "positive")}


@pytest.mark.parametrize(("name", "labels"), HEADS.items())
def test_a_built_model_has_the_encoder_of_minilm_and_its_own_head(name: str, labels: tuple[str, ...]) -> None:
    folder = minilm.classifier(name, labels)
    weights = load_file(folder / "model.safetensors")
    encoder = load_file(minilm.minilm_embed() / "model.safetensors")
    assert weights["classifier.weight"].shape == (len(labels), 384)
    for tensor in ("embeddings.word_embeddings.weight", "pooler.dense.weight"):
        np.testing.assert_array_equal(weights[f"bert.{tensor}"], encoder[tensor])
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {str(index): label for index, label in enumerate(labels)}
    assert config["architectures"] == ["BertForSequenceClassification"]


def test_a_model_is_built_once_and_the_same_bytes_come_again_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = {}
    for cache in ("here", "there"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
        folder = minilm.minilm_cross_encoder()
        written = (folder / "model.safetensors").stat().st_mtime_ns
        assert minilm.minilm_cross_encoder() == folder
        assert (folder / "model.safetensors").stat().st_mtime_ns == written
        built[cache] = (folder.name, (folder / "model.safetensors").read_bytes())
    assert built["here"] == built["there"]


@pytest.mark.vllm
def test_the_cross_encoder_scores_as_an_independent_numpy_bert_does(minilm_cross_encoder: Path) -> None:
    import torch  # noqa: PLC0415
    from transformers import AutoModelForSequenceClassification, AutoTokenizer  # noqa: PLC0415

    model = AutoModelForSequenceClassification.from_pretrained(minilm_cross_encoder).eval()
    tokenizer = AutoTokenizer.from_pretrained(minilm_cross_encoder)
    encoded = tokenizer("what is the capital of france?", "Paris is the capital of France.", return_tensors="pt")
    with torch.no_grad():
        with_segments = model(**encoded).logits.item()
        encoded["token_type_ids"].zero_()
        without_segments = model(**encoded).logits.item()
    assert with_segments == pytest.approx(-1.7394, abs=1e-3)
    # The segments matter for this model, so a pipeline that loses them is found out.
    assert without_segments == pytest.approx(-1.6144, abs=1e-3)
