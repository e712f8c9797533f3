"""What transformers computes in float32, one text or pair at a time: no padding, so nothing but the model itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def mean_pooled(folder: Path, texts: Sequence[str], max_tokens: int) -> np.ndarray:
    """[texts, hidden], not normalised."""
    from transformers import AutoModel  # noqa: PLC0415 - seconds to import, and collecting the tests must not

    outputs = _outputs(AutoModel, folder, [(text, None) for text in texts], max_tokens)
    return np.stack([one.last_hidden_state[0].mean(dim=0).numpy() for one in outputs])


def logits(folder: Path, texts: Sequence[tuple[str, str | None]], max_tokens: int = 512) -> np.ndarray:
    """[texts, labels], of texts or pairs, with token_type_ids."""
    from transformers import AutoModelForSequenceClassification  # noqa: PLC0415

    outputs = _outputs(AutoModelForSequenceClassification, folder, texts, max_tokens)
    return np.stack([one.logits[0].numpy() for one in outputs])


def _outputs(kind: Any, folder: Path, texts: Sequence[tuple[str, str | None]], max_tokens: int) -> list[Any]:
    import torch  # noqa: PLC0415
    from transformers import AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = kind.from_pretrained(str(folder), dtype=torch.float32).eval()
    with torch.inference_mode():
        return [
            model(
                **tokenizer(
                    first,
                    second,
                    truncation="only_first" if second is None else "only_second",
                    max_length=max_tokens,
                    return_tensors="pt",
                )
            )
            for first, second in texts
        ]


def answers(folder: Path, prompts: Sequence[Sequence[int]], relevant: str, irrelevant: str | None) -> np.ndarray:
    """[prompts, 1]: a language model's logit of one token at the end of a prompt, less that of another one.

    `prompts`: token ids.
    """
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    tokens = [tokenizer.convert_tokens_to_ids(token) for token in (relevant, irrelevant) if token is not None]
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
    with torch.inference_mode():
        ends = [model(torch.tensor([ids])).logits[0, -1, tokens].numpy() for ids in prompts]
    return np.stack([end[:1] - end[1:].sum() for end in ends])


def headed(folder: Path, prompts: Sequence[Sequence[int]]) -> np.ndarray:
    """[prompts, 1]: the logit of a language model with a score head. `prompts`: token ids."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForSequenceClassification  # noqa: PLC0415

    model = AutoModelForSequenceClassification.from_pretrained(str(folder), dtype=torch.float32).eval()
    with torch.inference_mode():
        return np.stack([model(torch.tensor([ids])).logits[0].numpy() for ids in prompts])


def prompt_ids(folder: Path, beginning: str, documents: Sequence[str], end: str, max_tokens: int) -> list[list[int]]:
    """Whole prompts, the documents cut so that the end, which must begin with a control token, is kept."""
    from transformers import AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(str(folder))

    def encoded(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    suffix = encoded(end)
    return [encoded(beginning + document)[: max_tokens - len(suffix)] + suffix for document in documents]
