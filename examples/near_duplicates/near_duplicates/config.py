"""The model's configuration, as config.json holds it."""

from typing import Any

from transformers import PretrainedConfig


class SimHashConfig(PretrainedConfig):
    """`hidden_size`: bits of a signature. `shingle_tokens`: length of the runs that pick a vector each, from `buckets`.

    Layers and heads are what vLLM asks of any model; this one has no attention.
    """

    model_type = "simhash"

    def __init__(
        self,
        vocab_size: int = 256,
        hidden_size: int = 64,
        shingle_tokens: int = 8,
        buckets: int = 16_384,
        max_position_embeddings: int = 4096,
        **more: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.shingle_tokens = shingle_tokens
        self.buckets = buckets
        self.max_position_embeddings = max_position_embeddings
        self.num_hidden_layers = 1
        self.num_attention_heads = 1
        super().__init__(**more)
