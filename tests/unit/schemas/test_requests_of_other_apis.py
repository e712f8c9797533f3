"""Payloads of other scoring APIs with `id` and `task` added: of each field that has another name here, which one."""

import json
import re
from typing import Any

import pytest

from schemas.errors import ErrorCode
from schemas.request import REQUEST_MODELS

from .request_bytes import ALL_MODELS, accepted, as_bytes, refused, wire_names

LEAK = "zqxj7"
DOCS = [LEAK, "two"]

# By API: the payload as its documentation has it, with the task; and what the message says of its fields.
PAYLOADS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Cohere rerank v1": (
        {"task": "rerank", "query": LEAK, "documents": DOCS, "max_chunks_per_doc": 10, "rank_fields": ["title"]},
        {"max_chunks_per_doc": "write `max_tokens_per_doc`", "rank_fields": "join the fields to one `text`"},
    ),
    "Cohere rerank v2": (
        {"task": "rerank", "query": LEAK, "documents": DOCS, "top_n": 1, "max_tokens_per_doc": 4096},
        {},
    ),
    "Cohere embed": (
        {
            "task": "embed",
            "texts": DOCS,
            "input_type": "search_query",
            "embedding_types": ["float"],
            "output_dimension": 256,
        },
        {
            "texts": "write `input`",
            "input_type": "write `role`",
            "embedding_types": "write `encoding_format`",
            "output_dimension": "write `dimensions`",
        },
    ),
    "Cohere classify": (
        {"task": "classify", "inputs": DOCS, "examples": [{"text": LEAK, "label": LEAK}]},
        {"inputs": "write `input`", "examples": "the model's own labels are given: leave it out"},
    ),
    "Jina rerank": ({"task": "rerank", "query": LEAK, "documents": DOCS, "top_n": 1, "return_documents": False}, {}),
    "Jina embeddings": (
        {"task": "embed", "input": DOCS, "embedding_type": "float", "normalized": True, "late_chunking": True},
        {
            "embedding_type": "write `encoding_format`",
            "normalized": "write `normalize`",
            "late_chunking": "leave it out",
        },
    ),
    "Voyage rerank": (
        {"task": "rerank", "query": LEAK, "documents": DOCS, "top_k": 1, "truncation": True},
        {"truncation": "write `truncate`"},
    ),
    "Voyage rerank, the rest of it": (
        {"task": "rerank", "query": LEAK, "documents": DOCS, "top_k": 1},
        {"top_k": "write `top_n`"},
    ),
    "Voyage embeddings": (
        {"task": "embed", "input": DOCS, "input_type": "query", "output_dimension": 256, "output_dtype": "float"},
        {
            "input_type": "write `role`",
            "output_dimension": "write `dimensions`",
            "output_dtype": "write `encoding_format`",
        },
    ),
    "TEI rerank": (
        {"task": "rerank", "query": LEAK, "texts": DOCS, "raw_scores": False, "return_text": False, "truncate": True},
        {"texts": "write `documents`", "return_text": "write `return_documents`"},
    ),
    "TEI embed": (
        {"task": "embed", "inputs": DOCS, "normalize": True, "truncate": False, "prompt_name": "query"},
        {"inputs": "write `input`", "prompt_name": "write `role`"},
    ),
    "TEI predict": (
        {"task": "classify", "inputs": LEAK, "raw_scores": False, "truncation_direction": "Right"},
        {"inputs": "write `input`", "truncation_direction": "texts are cut at their end: leave it out"},
    ),
    "TEI similarity": (
        {"task": "score", "inputs": {"source_sentence": LEAK, "sentences": DOCS}},
        {"inputs": "write `query` and `document`"},
    ),
    "vLLM score of texts": (
        {"task": "score", "text_1": LEAK, "text_2": LEAK},
        {"text_1": "write `query`", "text_2": "write `document`"},
    ),
    "vLLM score of data": (
        {"task": "score", "data_1": LEAK, "data_2": LEAK, "use_activation": False},
        {"data_1": "write `query`", "data_2": "write `document`", "use_activation": "write `raw_scores`"},
    ),
    "vLLM score of queries": (
        {"task": "score", "queries": LEAK, "items": DOCS},
        {"queries": "write `query`", "items": "write `document`, or use task rerank"},
    ),
    "vLLM score of documents": (
        {"task": "score", "query": LEAK, "documents": DOCS},
        {"documents": "write `document`, or use task rerank"},
    ),
    "vLLM rerank of texts": (
        {"task": "rerank", "text_1": LEAK, "text_2": DOCS, "truncate_prompt_tokens": 100},
        {
            "text_1": "write `query`",
            "text_2": "write `documents`",
            "truncate_prompt_tokens": "write `max_tokens_per_doc`",
        },
    ),
    "vLLM rerank": (
        {
            "task": "rerank",
            "query": LEAK,
            "documents": DOCS,
            "mm_processor_kwargs": {},
            "cache_salt": LEAK,
            "max_tokens_per_query": 9,
        },
        {"mm_processor_kwargs": "texts only: leave it out", "cache_salt": "leave it out"},
    ),
    "vLLM classify": (
        {"task": "classify", "input": DOCS, "use_activation": True, "add_special_tokens": True, "request_id": LEAK},
        {"use_activation": "write `raw_scores`", "add_special_tokens": "leave it out"},
    ),
    "vLLM embeddings": (
        {"task": "embed", "input": DOCS, "embed_dtype": "float32", "endianness": "native", "truncation_side": "left"},
        {"embed_dtype": "write `encoding_format`", "endianness": "leave it out"},
    ),
    "vLLM embeddings of a chat": (
        {"task": "embed", "messages": [{"role": "user", "content": LEAK}], "chat_template": LEAK},
        {"messages": "write `input`", "chat_template": "leave it out"},
    ),
    "OpenAI embeddings": (
        {"task": "embed", "input": DOCS, "dimensions": 256, "encoding_format": "float", "user": LEAK},
        {"user": "leave it out, or put it into `metadata`"},
    ),
    "OpenAI moderations": ({"task": "classify", "input": DOCS, "model": "omni"}, {}),
    "Ollama": (
        {"task": "embed", "model": "m", "prompt": LEAK, "options": {}, "keep_alive": "5m"},
        {"prompt": "write `input`", "options": "leave it out", "keep_alive": "leave it out"},
    ),
    "Google": (
        {"task": "embed", "content": LEAK, "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 256},
        {
            "content": "write `input`",
            "taskType": "write `role`",
            "outputDimensionality": "write `dimensions`",
        },
    ),
    "transformers' pipeline": (
        {"task": "classify", "text": LEAK, "function_to_apply": "none", "return_all_scores": True, "top_n": 1},
        {
            "text": "write `input`",
            "function_to_apply": "write `raw_scores`",
            "return_all_scores": "all are given: leave it out",
        },
    ),
    "transformers' zero-shot pipeline": (
        {"task": "classify", "input": LEAK, "candidate_labels": [LEAK]},
        {"candidate_labels": "the model's own labels are given: leave it out"},
    ),
    "sentence-transformers": (
        {"task": "embed", "sentences": DOCS, "normalize_embeddings": True, "truncate_dim": 256, "batch_size": 8},
        {
            "sentences": "write `input`",
            "normalize_embeddings": "write `normalize`",
            "truncate_dim": "write `dimensions`",
            "batch_size": "leave it out",
        },
    ),
    "LangChain": (
        {"task": "rerank", "query": LEAK, "docs": [{"page_content": LEAK}], "k": 2, "callbacks": None},
        {"docs": "write `documents`", "k": "write `top_n`"},
    ),
    "an IO processor of vLLM's server": (
        {"task": "plugin", "plugin": "p", "prompt": LEAK},
        {"plugin": "write `processor`", "prompt": "write `data`"},
    ),
    "a client's own words": (
        {"task": "embed", "input": LEAK, "timeout": 5, "ttl": 60, "model_name": "m", "session": LEAK},
        {"timeout": "write `timeout_ms`", "ttl": "write `ttl_seconds`", "model_name": "write `model`"},
    ),
}


@pytest.mark.parametrize(("payload", "hints"), PAYLOADS.values(), ids=PAYLOADS)
def test_for_each_field_with_another_name_the_contract_s_is_given(payload, hints):
    value = json.dumps({"id": "r-1"} | payload).encode()
    if not hints:
        assert accepted(value).id == "r-1"
        return
    error = refused(value)
    assert (error.code, error.id, error.task) == (ErrorCode.SCHEMA, "r-1", payload["task"])
    for name, hint in hints.items():
        assert re.search(rf"`{name}`[^`]*\({re.escape(hint)}\)", error.message), error.message
    assert LEAK not in error.message


@pytest.mark.parametrize("task", REQUEST_MODELS)
def test_every_hint_is_a_field_of_the_task(task):
    """Whatever any table knows, with any spelling: what is written after `write` can be written."""
    fields = {model.model_fields["task"].annotation.__args__[0]: wire_names(model) for model in ALL_MODELS}
    names = {name for payload, hints in PAYLOADS.values() for name in payload.keys() | hints.keys()}
    for name in names - fields[task]:
        message = refused(as_bytes(task, **{name: 1})).message
        for written in re.findall(r"write (`\w+`(?: and `\w+`)*)", message):
            assert set(re.findall(r"\w+", written)) - {"and"} <= fields[task], message


def test_no_field_is_suggested_that_is_there():
    message = refused(as_bytes("rerank", texts=["d"], top_k=1)).message
    assert message == "unknown field `texts`"
    message = refused(json.dumps({"id": "a", "task": "rerank", "query": "q", "texts": ["d"]}).encode()).message
    assert message == "unknown field `texts` (write `documents`)"
    assert refused(as_bytes("rerank", top_k=1)).message == "`top_k` does not belong to task rerank (write `top_n`)"
    assert refused(as_bytes("rerank", top_k=1, top_n=2)).message == "`top_k` does not belong to task rerank"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"content": LEAK}, "`content` (write `text`)"),
        ({"page_content": LEAK, "metadata": {}}, "`page_content` (write `text`)"),
        ({"Text": LEAK}, "`Text` (write `text`)"),
        ({"text": LEAK, "title": LEAK}, "`title` (join it to `text`)"),
        ({"text": LEAK, "doc_id": LEAK, "title": LEAK, "url": LEAK}, "`doc_id` (write `id`)"),
        ({"text": LEAK, "content": LEAK}, "`content`"),
    ],
)
@pytest.mark.parametrize(("task", "field"), [("rerank", "documents"), ("classify", "input"), ("embed", "input")])
def test_for_a_field_of_a_document_the_contract_s_name_is_given(task, field, document, says):
    error = refused(as_bytes(task, **{field: ["d", document]}))
    assert (error.code, error.index) == (ErrorCode.SCHEMA, 1)
    assert f"`{field}[1]`" in error.message
    assert says in error.message
    assert LEAK not in error.message


def test_what_is_known_is_named_before_what_is_not():
    message = refused(as_bytes("rerank", **{f"a{number}": 1 for number in range(9)}, return_text=True)).message
    assert message.startswith("unknown fields `return_text` (write `return_documents`), `a0`, `a1`")
    assert message.endswith("and 5 more")


@pytest.mark.parametrize(
    "spell", [str.upper, str.title, lambda name: name.replace("_", "-"), lambda n: n.replace("_", "")]
)
def test_for_another_spelling_of_a_field_the_right_one_is_given(spell):
    for model in ALL_MODELS:
        task = model.model_fields["task"].annotation.__args__[0]
        for name in wire_names(model) - {"id", "task", "query", "documents", "document", "input", "processor"}:
            if spell(name) != name:
                message = refused(as_bytes(task, **{spell(name): 1})).message
                assert message == f"unknown field `{spell(name)}` (write `{name}`)"
