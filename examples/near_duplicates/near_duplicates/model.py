"""SimHash (Charikar 2002) as a pooling model of vLLM."""

from collections.abc import Iterable

import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.model_executor.layers.pooler import DispatchPooler
from vllm.model_executor.models.interfaces import IsAttentionFree
from vllm.model_executor.models.interfaces_base import attn_type, default_pooling_type
from vllm.model_executor.models.utils import AutoWeightsLoader

_BASE = 257
"""Of the polynomial that hashes a run of bytes; more than there are bytes."""
_MIX = 0x9E3779B97F4A7C15 - 2**64
"""Fibonacci hashing: spreads the polynomial's values over the buckets."""


def shingle_buckets(ids: torch.Tensor, positions: torch.Tensor, shingle_tokens: int, buckets: int) -> torch.Tensor:
    """For each token the bucket of the run that ends with it; shape [tokens], int64.

    Sequences stand one after another, as vLLM batches them: a token's position tells how far back its own reaches.
    """
    ids = ids.long() + 1
    shingle = torch.zeros_like(ids)
    for back in range(shingle_tokens - 1, -1, -1):
        before = torch.where(positions >= back, ids.roll(back), 0)
        shingle = shingle * _BASE + before
    return (shingle * _MIX >> 33) % buckets


@attn_type("attention_free")
@default_pooling_type(seq_pooling_type="MEAN")
class SimHashModel(nn.Module, IsAttentionFree):
    """Each token becomes the random vector of the run that ends with it; their mean has the signature's signs."""

    is_pooling_model = True

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        del prefix
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.config = config
        self.vectors = nn.Embedding(config.buckets, config.hidden_size)
        self.pooler = DispatchPooler.for_embedding(vllm_config.model_config.pooler_config)

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Wanted of every model by vLLM; here a token alone means nothing."""
        return self.vectors(input_ids)

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        intermediate_tensors: object = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Token ids and positions of all sequences, [tokens] each -> [tokens, bits]."""
        del intermediate_tensors, inputs_embeds
        return self.vectors(shingle_buckets(input_ids, positions, self.config.shingle_tokens, self.config.buckets))

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """From the safetensors; names in the file are names in this class."""
        return AutoWeightsLoader(self).load_weights(weights)
