"""Decoder rerankers: a language model that answers, by the logits of one or two tokens or by a head made of them.

Without the prompt it was trained with, such a model ranks almost at random and its scores look fine. So the prompt is
known here by the model's name on the hub, or stated by settings or by the model's own files; never guessed.
"""

from __future__ import annotations

from typing import Any

from consumer.model.candidate import Candidate, Family
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.chat_template import template_of
from consumer.model.template import KNOWN, KNOWN_MODELS, Template

_CAUSAL = ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "GemmaForCausalLM")
_TIED_UNLESS_STATED = ("GemmaForCausalLM",)
"""Where transformers takes the input's embeddings for lm_head, too, when config.json says nothing."""
WITH_HEAD = tuple(name.replace("ForCausalLM", "ForSequenceClassification") for name in _CAUSAL)
HEAD, _BIAS = "score.weight", "score.bias"
_FIX = (
    f"set engine.reranker.template to {' or '.join(KNOWN)} if it is one of those, or to its own prompt with {{query}} "
    "and {document}, as its authors give it"
)


def _recognise(candidate: Candidate) -> ModelCard | None:
    if candidate.architecture in _CAUSAL:
        return _answering(candidate)
    if candidate.architecture in WITH_HEAD:
        return _with_head(candidate)
    return None


def _answering(candidate: Candidate) -> ModelCard | None:
    """A language model as published: its answer is read off its own vocabulary."""
    template = _template(candidate)
    if template is None:
        return None
    files = candidate.files
    if template.relevant_token is None:
        raise files.refuse(
            "engine.reranker.relevant_token is empty: name the token that stands for a relevant document, and in "
            "irrelevant_token the other one if its score is their difference"
        )
    if candidate.config.get("final_logit_softcapping"):
        raise files.refuse("it caps its logits (final_logit_softcapping), which vLLM's classifier leaves out")
    shapes = files.tensor_shapes()
    tied = candidate.config.get("tie_word_embeddings", candidate.architecture in _TIED_UNLESS_STATED)
    if not tied and "lm_head.weight" not in shapes:
        raise files.refuse("its weights have no lm_head.weight: there is no trained head, scores would be random")
    head = " - ".join(f"logit of {token!r}" for token in reversed(template.answer_tokens))
    overrides = {
        "architectures": [candidate.architecture.replace("ForCausalLM", "ForSequenceClassification")],
        "classifier_from_token": template.answer_tokens,
        "method": "from_2_way_softmax" if template.irrelevant_token else "no_post_processing",
    }
    return _card(candidate, template, head, overrides)


def _with_head(candidate: Candidate) -> ModelCard | None:
    """A language model converted to a sequence classifier; it still needs its prompt."""
    files = candidate.files
    shape = files.tensor_shapes().get(HEAD)
    if shape is None:
        raise files.refuse(
            f"its weights have no {HEAD}: there is no trained head, scores would be random. If it is a language model "
            f"that answers by a token, leave out engine.args.hf_overrides and {_FIX}"
        )
    if shape[0] != 1:
        if candidate.engine.reranker.template:
            raise files.refuse(
                f"its head has {shape[0]} labels, and relevance is one: leave out engine.reranker.template"
            )
        return None
    template = _template(candidate)
    if template is None:
        raise files.refuse(f"it needs its prompt, without which its scores mean nothing: {_FIX}")
    if candidate.engine.reranker.relevant_token or candidate.engine.reranker.irrelevant_token:
        raise files.refuse("it has a head of its own: leave out engine.reranker.relevant_token and irrelevant_token")
    return _card(candidate, Template(template.text, template.instruction), HEAD, {})


def check_no_bias(candidate: Candidate) -> None:
    """Raises SettingsInvalid for a bias of the head: transformers has none and ignores it, vLLM adds it."""
    if _BIAS in candidate.files.tensor_shapes():
        raise candidate.files.refuse(
            f"its weights have {_BIAS}, which transformers ignores and vLLM adds: take it out of the weights"
        )


def _card(candidate: Candidate, template: Template, head: str, overrides: dict[str, Any]) -> ModelCard:
    candidate.check_own_code()
    check_no_bias(candidate)
    return candidate.card(
        ModelKind.DECODER_RERANKER,
        Scale.SIGMOID,
        head=head,
        pooling="LAST",
        causal=True,
        template=template,
        engine_overrides=overrides,
        has_segments=False,
    )


def _template(candidate: Candidate) -> Template | None:
    """As set, else by the model's name on the hub, else as the model's files state it."""
    files, wanted = candidate.files, candidate.engine.reranker
    known = wanted.template or (KNOWN_MODELS.get(files.model, "") if files.commit else "")
    template = KNOWN.get(known)
    if template is None:
        template = Template(wanted.template) if wanted.template else template_of(files)
    if template is None:
        return None
    template = Template(
        text=template.text,
        instruction=template.instruction if wanted.instruction is None else wanted.instruction,
        relevant_token=wanted.relevant_token or template.relevant_token,
        irrelevant_token=wanted.irrelevant_token or (None if wanted.relevant_token else template.irrelevant_token),
    )
    if problem := template.problem():
        raise files.refuse(f"its prompt cannot be used: {problem}. It is {template.text!r}; {_FIX}")
    if wanted.instruction is not None and not template.takes_instruction:
        raise files.refuse("engine.reranker.instruction: leave it out, the prompt has no {instruction}")
    if template.takes_instruction and not template.instruction:
        raise files.refuse("engine.reranker.instruction is empty: say what {instruction} is for requests without one")
    return template


FAMILY = Family((*_CAUSAL, *WITH_HEAD), _recognise)
