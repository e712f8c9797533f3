"""Write the model's folder: `python -m near_duplicates.make_model FOLDER`.

The weights are random by design, and seeded: every folder so made is the same model.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from near_duplicates.config import SimHashConfig

SEED = 20_020_519


def make_model(folder: Path) -> None:
    """config.json, the weights, and a tokenizer whose tokens are bytes of lower-case text with single spaces."""
    folder.mkdir(parents=True, exist_ok=True)
    config = SimHashConfig(architectures=["SimHashModel"], dtype="float32")
    config.save_pretrained(folder)
    generator = torch.Generator().manual_seed(SEED)
    vectors = torch.randn(config.buckets, config.hidden_size, generator=generator)
    save_file({"vectors.weight": vectors}, folder / "model.safetensors", metadata={"format": "pt"})
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({byte: number for number, byte in enumerate(alphabet)}, []))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.max_position_embeddings}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
