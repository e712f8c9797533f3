"""Tiny embedders in the layout of sentence-transformers, made of the other seeded models."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, processors

from tests.models import decoders, encoders
from tests.models.folder import built

END = "<|endoftext|>"
QUERY_PROMPT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
DENSE_SIZES = (64, 96, 32)
"""Of a vector: pooled, between the two Dense modules, and in the end."""
_TYPE = "sentence_transformers.models."


def xlm_roberta() -> Path:
    """XLMRobertaModel, CLS pooling: the kind of bge-m3 and multilingual-e5, with prompts by role."""
    prompts = {"query": "query: ", "passage": "passage: "}
    return _embedder("xlm-roberta-cls", encoders.xlm_roberta, "cls_token", prompts)


def roberta() -> Path:
    """RobertaModel, mean pooling: the kind of all-distilroberta-v1."""
    return _embedder("roberta-mean", encoders.roberta, "mean_tokens", {})


def modern_bert() -> Path:
    """ModernBertModel, mean pooling."""
    return _embedder("modernbert-mean", lambda: encoders.modern_bert("mean"), "mean_tokens", {})


def dense() -> Path:
    """ModernBertModel, mean pooling, and behind it two Dense modules, the first with an activation and a bias."""
    return _embedder("modernbert-dense", lambda: encoders.modern_bert("mean"), "mean_tokens", {}, dense=True)


def qwen3() -> Path:
    """Qwen3-Embedding as published: Qwen3ForCausalLM, the last token's vector, an end token, an instructed query."""
    prompts = {"query": QUERY_PROMPT, "document": ""}
    return _embedder("qwen3-last", lambda: decoders.causal("Qwen3", tied=True), "lasttoken", prompts, whole=True)


def decoder(family: str) -> Path:
    """`family`Model with the last token's vector."""
    return _embedder(f"{family}-last", lambda: decoders.causal(family), "lasttoken", {})


def _embedder(
    name: str,
    base: Callable[[], Path],
    pooling: str,
    prompts: Mapping[str, str],
    *,
    whole: bool = False,
    dense: bool = False,
) -> Path:
    source = base()

    def build(folder: Path) -> None:
        if whole:
            shutil.copytree(source, folder, dirs_exist_ok=True)
        else:
            save_body(source, folder)
        if pooling == "lasttoken":
            _append_end(folder)
        modules = [_module("", "Transformer"), _module("1_Pooling", "Pooling")]
        stated = {"word_embedding_dimension": DENSE_SIZES[0], f"pooling_mode_{pooling}": True, "include_prompt": True}
        files: dict[str, Any] = {"1_Pooling/config.json": stated}
        files["config_sentence_transformers.json"] = {"prompts": prompts, "default_prompt_name": None}
        if dense:
            modules += write_dense(folder, DENSE_SIZES)
        modules.append(_module(f"{len(modules)}_Normalize", "Normalize"))
        for path, content in {**files, "modules.json": modules}.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(json.dumps(content))

    sources = [
        Path(__file__).with_name(f"{module}.py") for module in ("embedders", "encoders", "decoders", "byte_pairs")
    ]
    recipe = b"".join(source.read_bytes() for source in sources) + name.encode()
    return built(f"embedder-{name}".lower(), recipe, build)


def _module(path: str, kind: str) -> dict[str, str]:
    return {"name": path or "0", "path": path, "type": _TYPE + kind}


def write_dense(
    folder: Path, sizes: Sequence[int], first: int = 2, kind: str = _TYPE + "Dense"
) -> list[dict[str, str]]:
    """One Dense module from each size to the next: a bias and tanh, but for the last. Returns modules.json's part."""
    random = np.random.default_rng(decoders.SEED)
    modules = []
    for at, (inputs, outputs) in enumerate(pairwise(sizes)):
        last = at == len(sizes) - 2
        path = folder / f"{at + first}_Dense"
        path.mkdir()
        weights = {"linear.weight": random.standard_normal((outputs, inputs)).astype(np.float32) / 8}
        if not last:
            weights["linear.bias"] = random.standard_normal(outputs).astype(np.float32)
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
        activation = "torch.nn.modules.linear.Identity" if last else "torch.nn.modules.activation.Tanh"
        config = {"in_features": inputs, "out_features": outputs, "bias": not last, "activation_function": activation}
        (path / "config.json").write_text(json.dumps(config))
        modules.append({"name": path.name, "path": path.name, "type": kind})
    return modules


def save_body(source: Path, folder: Path) -> None:
    import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
    from transformers import AutoModel  # noqa: PLC0415

    AutoModel.from_pretrained(str(source), dtype=torch.float32).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, folder / name)


def _append_end(folder: Path) -> None:
    """The tokenizer ends every text with its end token, as Qwen3-Embedding's does."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
            ),
        ]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
