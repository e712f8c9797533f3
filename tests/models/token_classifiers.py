"""Tiny token classifiers: the encoders of other test models with a seeded head of five labels."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.models import encoders, minilm
from tests.models.decoders import SEED
from tests.models.folder import built

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def bert() -> Path:
    """BertForTokenClassification on MiniLM."""
    return _classifier("bert", minilm.minilm_cross_encoder)


def xlm_roberta() -> Path:
    """XLMRobertaForTokenClassification."""
    return _classifier("xlm-roberta", encoders.xlm_roberta)


def modern_bert() -> Path:
    """ModernBertForTokenClassification, which has a layer of its own before its head."""
    return _classifier("modernbert", lambda: encoders.modern_bert("mean"))


def _classifier(name: str, base: Callable[[], Path]) -> Path:
    source = base()

    def build(folder: Path) -> None:
        import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
        from transformers import AutoModelForTokenClassification  # noqa: PLC0415

        torch.manual_seed(SEED)
        model = AutoModelForTokenClassification.from_pretrained(
            str(source),
            dtype=torch.float32,
            id2label=dict(enumerate(LABELS)),
            label2id={label: row for row, label in enumerate(LABELS)},
            ignore_mismatched_sizes=True,
        )
        with torch.no_grad():
            model.classifier.weight.normal_(std=0.3)
            model.classifier.bias.normal_(std=0.5)
        model.save_pretrained(folder)
        for file in source.iterdir():
            if file.name.startswith(("tokenizer", "vocab", "special_tokens")):
                shutil.copyfile(file, folder / file.name)

    sources = ("token_classifiers.py", "encoders.py", "minilm.py", "byte_pairs.py")
    recipe = b"".join(Path(__file__).with_name(source).read_bytes() for source in sources) + name.encode()
    return built(f"tokens-{name}", recipe, build)
