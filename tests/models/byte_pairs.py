"""A small byte-level BPE tokenizer, trained here on fixed text, with the rules and the control tokens of Qwen's."""

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

VOCABULARY = 1200
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NOT_SPECIAL = ("<think>", "</think>")
"""Added tokens that Qwen3's tokenizer does not call special."""
_TEXT = """
    the capital of france is paris and the price of a bottle of cola is two euros a panda eats bamboo in china while
    rivers run to the sea relevant documents answer the query with facts names dates numbers and short sentences
    judge whether document meets requirements based on query instruct provided note that answer can only be yes or no
"""
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def training_lines() -> list[str]:
    """What the tokenizer learns its vocabulary from; always the same."""
    vocabulary = _TEXT.split()
    lines = ["yes", "no", "Yes", "No", "0", "1"] * 40
    for step in range(1, 25):
        words = [vocabulary[at * step % len(vocabulary)] for at in range(40)]
        lines.append(" ".join(words).capitalize() + f": {step}, ({step * 7}).\n" + "\n".join(words))
        lines.append(f"user\n<Query>: {' '.join(words[:9])}?\n<Document>: {', '.join(words[9:20])}!\n\n")
        lines.append("".join(words) + " caf\u00e9 \u6771\u4eac \u6cd5\u56fd\u7684\u9996\u90fd\u662f\u5df4\u9ece\u3002")
    return lines


def build_tokenizer(folder: Path, **settings: object) -> int:
    """Write tokenizer.json and tokenizer_config.json; returns the vocabulary's size, added tokens included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in NOT_SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": SPECIAL[0], "eos_token": SPECIAL[2]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | settings))
    return tokenizer.get_vocab_size(with_added_tokens=True)
