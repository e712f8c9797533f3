"""Tiny encoders with seeded weights and a head of one label: exact to compare, meaningless to read."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tests.models.byte_pairs import training_lines
from tests.models.decoders import SEED
from tests.models.folder import built

_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "initializer_range": 0.25,
    "num_labels": 1,
}


def xlm_roberta() -> Path:
    """XLMRobertaForSequenceClassification: 514 positions, of which 512 can be used, as the real ones have."""
    shape = _SHAPE | {"num_hidden_layers": 2, "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}
    return _model("XLMRoberta", shape, _unigram)


def roberta() -> Path:
    """RobertaForSequenceClassification: byte-level BPE, and 512 of 514 positions as above."""
    shape = _SHAPE | {"num_hidden_layers": 2, "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}
    return _model("Roberta", shape, _roberta_byte_pairs)


def roberta_with_segments() -> Path:
    """The same with two segments, which its tokenizer marks."""
    shape = _SHAPE | {"num_hidden_layers": 2, "max_position_embeddings": 514, "type_vocab_size": 2, "pad_token_id": 1}
    return _model("Roberta", shape, lambda: _marked(_roberta_byte_pairs()))


def modern_bert(pooling: str) -> Path:
    """ModernBertForSequenceClassification with layers of local and of global attention; `pooling`: cls or mean."""
    shape = _SHAPE | {"num_hidden_layers": 4, "max_position_embeddings": 512, "classifier_pooling": pooling}
    shape |= {"initializer_cutoff_factor": 4.0, "local_attention": 64, "norm_bias": False}
    return _model("ModernBert", shape, _byte_pairs)


def _model(family: str, shape: dict[str, Any], build_tokenizer: Any) -> Path:
    def build(folder: Path) -> None:
        import torch  # noqa: PLC0415 - seconds to import, and collecting the tests must not
        import transformers  # noqa: PLC0415

        tokenizer = build_tokenizer()
        tokenizer.save(str(folder / "tokenizer.json"))
        special = {name: token for name, token in _SPECIAL[family].items() if name != "order"}
        config = special | {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512}
        types = ["token_type_ids"] if shape.get("type_vocab_size", 1) > 1 else []
        config["model_input_names"] = ["input_ids", "attention_mask", *types]
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        ids = {f"{name}_id": tokenizer.token_to_id(token) for name, token in special.items() if name != "unk_token"}
        settings = shape | ids | {"vocab_size": tokenizer.get_vocab_size(with_added_tokens=True)}
        torch.manual_seed(SEED)
        config_class = getattr(transformers, f"{family}Config")
        model = getattr(transformers, f"{family}ForSequenceClassification")(config_class(**settings))
        model.float().save_pretrained(folder)

    segments = ["segments"] if shape.get("type_vocab_size", 1) > 1 else []
    name = "-".join([family, str(shape.get("classifier_pooling", "head")), *segments]).lower()
    sources = (Path(__file__), Path(__file__).with_name("byte_pairs.py"))
    return built(name, b"".join(source.read_bytes() for source in sources) + name.encode(), build)


_ROBERTAS = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
_SPECIAL = {
    "XLMRoberta": _ROBERTAS,
    "Roberta": _ROBERTAS,
    "ModernBert": {"cls_token": "[CLS]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]"},
}


def _unigram() -> Tokenizer:
    """XLM-R's kind: SentencePiece's unigram, spaces as marks, two separators in a pair."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = list(_ROBERTAS.values())
    trainer = trainers.UnigramTrainer(vocab_size=900, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(training_lines(), trainer)
    return _two_separators(tokenizer)


def _two_separators(tokenizer: Tokenizer) -> Tokenizer:
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids
    )
    return tokenizer


def _marked(tokenizer: Tokenizer) -> Tokenizer:
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B:1 </s>:1", special_tokens=ids
    )
    return tokenizer


def _roberta_byte_pairs() -> Tokenizer:
    """RoBERTa's kind: byte-level BPE whose special tokens come first, padding second: positions count from there."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(_ROBERTAS.values()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    return _two_separators(tokenizer)


def _byte_pairs() -> Tokenizer:
    """ModernBERT's kind: byte-level BPE with BERT's special tokens and no segments."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    special = list(_SPECIAL["ModernBert"].values())
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ids
    )
    return tokenizer
