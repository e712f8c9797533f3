"""A reranker of Qwen3-0.6B's shape with random weights: its cost without its wisdom, for measuring without a download.

`python -m scripts.random_reranker DIR` writes a Hugging Face folder of 1.2 GB (bfloat16): a sequence classifier with
one label, and a byte-level tokenizer in which each word of the bench's made-up texts is one token. On a GPU it takes
seconds, on a processor a minute. `--layers 1 --hidden-size 64 --heads 2` makes one of 20 MB that any machine can run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3Config, Qwen3ForSequenceClassification

from producer_tools.generate import WORDS

SEED = 0
VOCABULARY = 151_936
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for one in messages if one.role == 'query' %}<|im_start|>{{ one.content }}<|im_end|>{% endfor %}"
    "{% for one in messages if one.role == 'document' %}{{ one.content }}<|im_end|>{% endfor %}"
)
"""Its prompt: three tokens and the texts, so that lengths are the load's own."""


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=10_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    # At the beginning of a text a word has no space before it.
    tokenizer.train_from_iterator([line for word in WORDS for line in (word, f"{word} {word}")] * 4, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": SPECIAL[0], "eos_token": SPECIAL[2]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": CHAT_TEMPLATE}))


def write_prompt(folder: Path) -> None:
    """The files by which sentence-transformers and the worker know how the model is asked."""
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
    (folder / "modules.json").write_text(json.dumps([module]))
    message = {"method": "forward", "method_output_name": "logits", "format": "flat"}
    (folder / "sentence_bert_config.json").write_text(json.dumps({"modality_config": {"message": message}}))


def write_model(folder: Path, layers: int, hidden_size: int, heads: int) -> None:
    """config.json and weights. `heads` is even: two share their keys and values."""
    torch.manual_seed(SEED)
    torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
    ids = Tokenizer.from_file(str(folder / "tokenizer.json"))
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        head_dim=128,
        max_position_embeddings=40_960,
        rms_norm_eps=1e-6,
        rope_theta=1_000_000.0,
        tie_word_embeddings=True,
        num_labels=1,
        pad_token_id=ids.token_to_id(SPECIAL[0]),
        eos_token_id=ids.token_to_id(SPECIAL[2]),
        bos_token_id=ids.token_to_id(SPECIAL[0]),
        dtype="bfloat16",
    )
    model = Qwen3ForSequenceClassification(config).to(torch.bfloat16)
    with torch.no_grad():
        model.score.weight.normal_(0, 0.05)
    model.save_pretrained(folder)


def main() -> None:
    """Write it all."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("folder", type=Path, help="made when missing")
    arguments.add_argument("--layers", type=int, default=28, help="fewer make it smaller and faster")
    arguments.add_argument("--hidden-size", type=int, default=1024)
    arguments.add_argument("--heads", type=int, default=16, help="even")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(given.folder)
    write_prompt(given.folder)
    write_model(given.folder, given.layers, given.hidden_size, given.heads)


if __name__ == "__main__":
    main()
