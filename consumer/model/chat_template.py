"""A reranker's prompt as its own files state it: sentence-transformers' chat template for a query and a document.

The layout of sentence-transformers 5.4 and later: modules.json names a LogitScore beside the Transformer (or, for a
converted model, the Transformer alone), sentence_bert_config.json says how messages are built, and the chat template
takes the roles `query`, `document` and, for the instruction, `system`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consumer.model.files import ModelFiles
from consumer.model.sentence_files import MODEL, check_processing, stated_object
from consumer.model.template import DOCUMENT, INSTRUCTION, QUERY, Template

_PROBES = (" one ", "Two\n\n{{ 3 }}", "\n<four> & 'five'", "")
_MARKS = {"system": "\ue000", "query": "\ue001", "document": "\ue002"}
"""Characters that no template has."""


def template_of(files: ModelFiles) -> Template | None:
    """The prompt, or None where the files state none.

    Raises SettingsInvalid when they do and it is not of the form of a Template: text around query and document.
    """
    sentence = files.sentence_config()
    message = (sentence.get("modality_config") or {}).get("message")
    modules = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in files.modules()]
    if not isinstance(message, Mapping) or modules not in (["Transformer", "LogitScore"], ["Transformer"]):
        return None
    output = (message.get("method", "forward"), message.get("method_output_name", "logits"))
    if output != ("forward", "logits"):
        raise files.refuse(f"its modality_config takes {output} of a prompt; ('forward', 'logits') is supported")
    check_processing(files)
    from transformers import AutoTokenizer  # noqa: PLC0415 - seconds, and few models need it here

    tokenizer = AutoTokenizer.from_pretrained(str(files.folder), local_files_only=True)
    chat = _Chat(tokenizer, message.get("format") == "structured", sentence)
    text = chat.render(_MARKS)
    if any(text.count(_MARKS[role]) != 1 for role in ("query", "document")) or text.count(_MARKS["system"]) > 1:
        raise files.refuse("its chat template does not hold a query and a document once each")
    default = chat.render({role: mark for role, mark in _MARKS.items() if role != "system"})
    prompts = stated_object(files, MODEL)
    instruction = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name")) or _default(text, default)
    if instruction is None:
        raise files.refuse("its chat template changes with an instruction in a way that is not supported")
    _check(files, chat, text)
    for mark, placeholder in zip(_MARKS.values(), (INSTRUCTION, QUERY, DOCUMENT), strict=True):
        text = text.replace(mark, placeholder)
    return Template(text, instruction, *_answer_tokens(files, tokenizer))


class _Chat:
    """The chat template as sentence-transformers calls it."""

    def __init__(self, tokenizer: Any, structured: bool, sentence: Mapping[str, Any]) -> None:  # noqa: FBT001
        self._tokenizer = tokenizer
        self._structured = structured
        arguments = dict((sentence.get("processing_kwargs") or {}).get("chat_template") or {})
        arguments.pop("restore_suffix", None)
        self._arguments = arguments

    def render(self, contents: Mapping[str, str]) -> str:
        messages = [
            {"role": role, "content": [{"type": "text", "text": content}] if self._structured else content}
            for role, content in contents.items()
        ]
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, **self._arguments))


def _default(marked: str, default: str) -> str | None:
    """What stands in the place of the instruction when there is none; "" where it has no place."""
    before, mark, after = marked.partition(_MARKS["system"])
    if not mark:
        return ""
    if not default.startswith(before) or not default.endswith(after):
        return None
    return default[len(before) : len(default) - len(after)]


def _check(files: ModelFiles, chat: _Chat, marked: str) -> None:
    """The template puts texts in as they are: it does not trim or escape them."""
    for probe in _PROBES:
        for role, mark in _MARKS.items():
            # An instruction that is empty is the default one.
            if mark in marked and (probe or role != "system"):
                contents = _MARKS | {role: probe}
                if chat.render(contents) != marked.replace(mark, probe):
                    raise files.refuse(f"its chat template changes the {role} text {probe!r}, which is not supported")


def _answer_tokens(files: ModelFiles, tokenizer: Any) -> tuple[str | None, str | None]:
    """The relevant and the irrelevant token that LogitScore names, if there is one."""
    for module in files.modules():
        if str(module.get("type", "")).endswith(".LogitScore"):
            score = files.json(f"{module.get('path', '')}/config.json")
            ids = (score.get("true_token_id"), score.get("false_token_id"))
            relevant, irrelevant = (None if one is None else tokenizer.convert_ids_to_tokens(one) for one in ids)
            if relevant is None:
                raise files.refuse(f"its LogitScore module has no token for true_token_id {ids[0]}")
            return relevant, irrelevant
    return None, None
