"""Tiny late-interaction models with seeded weights, in ColBERT's own layout and in PyLate's."""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.models import encoders, minilm
from tests.models.decoders import SEED
from tests.models.embedders import save_body, write_dense
from tests.models.folder import built

SIZE = 16
"""Numbers of a token's vector."""
QUERY_TOKENS, DOCUMENT_TOKENS = 32, 64


def colbert() -> Path:
    """HF_ColBERT on MiniLM: the projection beside the encoder's weights, queries filled up with seen mask tokens."""
    source = minilm.minilm_embed()

    def build(folder: Path) -> None:
        for file in minilm.TOKENIZER_FILES:
            shutil.copyfile(source / file, folder / file)
        encoder = load_file(source / "model.safetensors")
        weights = {f"bert.{name}": value for name, value in encoder.items() if "position_ids" not in name}
        rows = np.random.default_rng(SEED).standard_normal((SIZE, 384))
        save_file(weights | {"linear.weight": rows.astype(np.float32)}, folder / "model.safetensors", {"format": "pt"})
        config = json.loads((source / "config.json").read_text()) | {"architectures": ["HF_ColBERT"]}
        (folder / "config.json").write_text(json.dumps(config))
        metadata = {
            "query_token_id": "[unused0]",
            "doc_token_id": "[unused1]",
            "query_maxlen": QUERY_TOKENS,
            "doc_maxlen": DOCUMENT_TOKENS,
            "mask_punctuation": True,
            "attend_to_mask_tokens": True,
            "similarity": "cosine",
        }
        (folder / "artifact.metadata").write_text(json.dumps(metadata))

    return built("colbert", Path(__file__).read_bytes() + Path(minilm.__file__).read_bytes(), build)


def pylate() -> Path:
    """ModernBertModel and a Dense module behind its tokens, as PyLate writes it; queries are not filled up."""
    source = encoders.modern_bert("mean")

    def build(folder: Path) -> None:
        save_body(source, folder)
        modules = [{"name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
        modules += write_dense(folder, (64, SIZE), first=1, kind="pylate.models.Dense.Dense")
        sentence = {
            "model_type": "ColBERT",
            "query_prefix": "[SEP]",
            "document_prefix": "[PAD]",
            "query_length": QUERY_TOKENS,
            "document_length": DOCUMENT_TOKENS,
            "do_query_expansion": False,
            "attend_to_expansion_tokens": False,
            "skiplist_words": [".", ",", "!"],
        }
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "config_sentence_transformers.json").write_text(json.dumps(sentence))

    sources = ("late_interaction.py", "embedders.py", "encoders.py", "byte_pairs.py")
    recipe = b"".join(Path(__file__).with_name(source).read_bytes() for source in sources)
    return built("pylate", recipe, build)
