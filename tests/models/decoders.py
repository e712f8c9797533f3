"""Tiny language models with seeded weights: exact to compare, meaningless to read.

Weights are larger than a trained model's, so that logits spread over a few units and a lost token shows.
"""

from pathlib import Path
from typing import Any

from tests.models.byte_pairs import build_tokenizer
from tests.models.folder import built

SEED = 20240607
POSITIONS = 512
_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.25,
}


def causal(family: str, *, tied: bool = False) -> Path:
    """`family`ForCausalLM, a language model as published: Qwen2, Qwen3, Llama or Gemma."""
    return _model(f"{family}ForCausalLM", tie_word_embeddings=tied)


def with_head(family: str, labels: int = 1) -> Path:
    """`family`ForSequenceClassification: a score head on the last token. It has no padding token."""
    return _model(f"{family}ForSequenceClassification", num_labels=labels)


def _model(architecture: str, **config: Any) -> Path:
    def build(folder: Path) -> None:
        import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
        import transformers  # noqa: PLC0415

        vocabulary = build_tokenizer(folder)
        family = architecture.removesuffix("ForCausalLM").removesuffix("ForSequenceClassification")
        shape = _SHAPE | config | {"vocab_size": vocabulary, "pad_token_id": None, "bos_token_id": None}
        torch.manual_seed(SEED)
        model = getattr(transformers, architecture)(getattr(transformers, f"{family}Config")(**shape))
        model.float().save_pretrained(folder)

    name = "-".join([architecture, *(f"{key}-{value}" for key, value in config.items())]).lower()
    recipe = Path(__file__).read_bytes() + Path(__file__).with_name("byte_pairs.py").read_bytes() + name.encode()
    return built(name, recipe, build)
