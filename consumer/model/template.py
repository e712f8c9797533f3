"""The prompt into which a decoder reranker's query and document are put, and the tokens whose logits are its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

INSTRUCTION, QUERY, DOCUMENT = "{instruction}", "{query}", "{document}"
PLACEHOLDER = re.compile("|".join(map(re.escape, (INSTRUCTION, QUERY, DOCUMENT))))


@dataclass(frozen=True, slots=True)
class Template:
    """A prompt with {query}, {document} and maybe {instruction}; everything else in it stands as it is.

    `text`: the whole prompt, control tokens included; nothing is added to it. `instruction`: for requests that give
    none. `relevant_token`, `irrelevant_token`: entries of the model's vocabulary; the score is the first one's logit
    at the end of the prompt, less the second one's if there is one. Without both, the model has a head of its own.
    """

    text: str
    instruction: str = ""
    relevant_token: str | None = None
    irrelevant_token: str | None = None

    @property
    def takes_instruction(self) -> bool:
        """Whether requests may bring one."""
        return INSTRUCTION in self.text

    @property
    def answer_tokens(self) -> list[str]:
        """The tokens in vLLM's order: the irrelevant one first."""
        return [token for token in (self.irrelevant_token, self.relevant_token) if token is not None]

    def problem(self) -> str | None:
        """Why this cannot be a reranker's prompt, or None. The document is last, because it alone may be cut."""
        found = PLACEHOLDER.findall(self.text)
        if sorted(found) not in (sorted((QUERY, DOCUMENT)), sorted((INSTRUCTION, QUERY, DOCUMENT))):
            return "it must hold {query} and {document} once each, and {instruction} at most once"
        if found[-1] != DOCUMENT:
            return "{document} must come after {query} and {instruction}"
        return None


KNOWN: Mapping[str, Template] = {
    # As its authors publish it: https://huggingface.co/Qwen/Qwen3-Reranker-0.6B
    "qwen3": Template(
        text=(
            "<|im_start|>system\n"
            "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
            'Note that the answer can only be "yes" or "no".<|im_end|>\n'
            "<|im_start|>user\n"
            "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\n"
        ),
        instruction="Given a web search query, retrieve relevant passages that answer the query",
        relevant_token="yes",  # noqa: S106 - a word, not a secret
        irrelevant_token="no",  # noqa: S106
    ),
}
"""What `engine.reranker.template` may name instead of a prompt."""

KNOWN_MODELS: Mapping[str, str] = {
    f"{name}{suffix}": "qwen3"
    for size in ("0.6B", "4B", "8B")
    for name, suffix in ((f"Qwen/Qwen3-Reranker-{size}", ""), (f"tomaarsen/Qwen3-Reranker-{size}", "-seq-cls"))
}
"""Models of the Hugging Face hub -> their template. A folder of the same name is no proof."""
