"""Small tokenizers of the kinds that decoder rerankers have, trained on the spot."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tests.models.byte_pairs import build_tokenizer, training_lines

CONTROL = ("<bos>", "<start_of_turn>", "<end_of_turn>")


@cache
def _byte_pairs() -> str:
    with TemporaryDirectory() as folder:
        build_tokenizer(Path(folder))
        return (Path(folder) / "tokenizer.json").read_text()


@cache
def _spaces_as_marks() -> str:
    """Gemma's kind: spaces become a mark, there is no pre-tokenizer, runs of newlines are added tokens."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    tokenizer.pre_tokenizer = None
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    tokenizer.add_tokens([AddedToken("\n\n", special=False, normalized=False)])
    return tokenizer.to_str()


@cache
def _greedy() -> str:
    """Merges go across words and punctuation, so a text's tokens depend on all that stands beside it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    return tokenizer.to_str()


KINDS = {"byte_pairs": _byte_pairs, "spaces_as_marks": _spaces_as_marks, "greedy": _greedy}


def tokenizer(kind: str) -> Tokenizer:
    """A new one each time, because a template changes it."""
    return Tokenizer.from_str(KINDS[kind]())
