"""What is meant by a name that the contract does not know: another spelling, or the word of another API.

The tables are closed: nothing of a request but the name of a field comes into a message.
"""

from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest
from typing import Any

from schemas.request import REQUEST_MODELS, Document
from schemas.wire.strict_json import shown_name

FIELDS = {
    task: frozenset(field.alias or name for name, field in model.model_fields.items())
    for task, model in REQUEST_MODELS.items()
}
"""Names of each task's fields on the wire."""
ALL_FIELDS = frozenset().union(*FIELDS.values())
DOCUMENT_FIELDS = frozenset(Document.model_fields)

_MAX_SHOWN = 5
_LEAVE_OUT = "leave it out"
_CUT_AT_THE_END = "texts are cut at their end: leave it out"
_TEXT_ONLY = "texts only: leave it out"
_ONE_DOCUMENT = "write `document`, or use task rerank"

_Meanings = Mapping[str, str]


def _fold(name: str) -> str:
    """Without case and separators: TOP_N, topN and top-n are one name."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def _meanings(rows: Mapping[str, str]) -> _Meanings:
    """Meanings by folded name, from names that share one, parted by spaces."""
    return {_fold(name): meaning for meaning, names in rows.items() for name in names.split()}


# From the requests of Cohere, Jina, Voyage, TEI, vLLM, OpenAI, Ollama, Google, and the pipelines of transformers.
_EVERYWHERE = _meanings(
    {
        "id": "request_id custom_id correlation_id message_id uuid",
        "model": "model_id model_name",
        "timeout_ms": "timeout timeout_seconds timeout_sec",
        "deadline_unix_ms": "deadline deadline_ms expires_at",
        "ttl_seconds": "ttl ttl_sec",
        "schema": "schema_version version",
        "truncate": "truncation auto_truncate truncate_prompt_tokens truncate_inputs",
        "metadata": "meta extra extra_data additional_data tags labels",
        "leave it out, or put it into `metadata`": "user session trace_id",
        _CUT_AT_THE_END: "truncation_side truncation_direction",
        _TEXT_ONLY: "images image mm_processor_kwargs media_io_kwargs multi_modal_data",
        _LEAVE_OUT: "stream n temperature add_special_tokens chat_template chat_template_kwargs add_generation_prompt "
        "continue_final_message padding cache_salt endianness max_tokens_per_query return_tokens priority_hint options "
        "keep_alive late_chunking batch_size",
    }
)
_SCORING = _meanings({"raw_scores": "raw_score use_activation activation softmax apply_softmax function_to_apply"})
_TASKS: Mapping[str, _Meanings] = {
    "rerank": _meanings(
        {
            "query": "text_1 data_1 queries question q query_text source_sentence search_query",
            "documents": "texts text text_2 data_2 document docs passages passage candidates chunks items contexts "
            "sentences corpus input inputs records hits",
            "top_n": "top_k k limit top",
            "return_documents": "return_text return_texts return_docs",
            "max_tokens_per_doc": "max_tokens max_length max_tokens_per_document max_chunks_per_doc max_doc_tokens "
            "truncate_prompt_tokens",
            "instruction": "instruct prompt task_instruction task_description",
            "join the fields to one `text`": "rank_fields",
        }
    ),
    "score": _meanings(
        {
            "query": "text_1 data_1 queries question q query_text source_sentence search_query",
            "document": "text_2 data_2 text doc passage candidate answer sentence",
            _ONE_DOCUMENT: "documents texts docs passages candidates chunks items contexts sentences records top_n "
            "top_k return_documents return_text max_tokens_per_doc",
            "write `query` and `document`": "input inputs text_pair",
            "instruction": "instruct prompt task_instruction task_description",
        }
    ),
    "classify": _meanings(
        {
            "input": "inputs text texts document documents sentence sentences query queries prompt prompts content "
            "contents messages passages",
            "top_k": "top_n k limit top",
            "all are given: leave it out": "return_all_scores",
            "the model's own labels are given: leave it out": "candidate_labels examples",
        }
    ),
    "embed": _meanings(
        {
            "input": "inputs text texts document documents sentence sentences query queries prompt prompts content "
            "contents messages passages",
            "role": "input_type task_type prompt_name embed_type",
            "encoding_format": "embedding_types embedding_type output_dtype embed_dtype output_format",
            "dimensions": "output_dimension output_dimensions output_dimensionality dim embedding_size truncate_dim",
            "normalize": "normalized normalise normalize_embeddings normalise_embeddings use_activation",
            "it is the model's: leave it out": "instruction instruct",
        }
    ),
    "plugin": _meanings(
        {
            "data": "input inputs payload params body arguments prompt prompts text texts",
            "processor": "plugin io_processor plugin_name",
        }
    ),
}
_DOCUMENT = _meanings(
    {
        "text": "texts content page_content body passage document value sentence chunk",
        "id": "doc_id document_id _id key uuid",
        "join it to `text`": "title",
    }
)
_TASK_NAMES = _meanings(
    {
        "rerank": "reranking reranker rank ranking text-ranking",
        "score": "scoring similarity sentence-similarity cross-encoder relevance",
        "classify": "classification text-classification token-classification sentiment-analysis ner predict",
        "embed": "embedding embeddings text-embedding feature-extraction encode "
        "retrieval.query retrieval.passage text-matching separation",
    }
)


def meant_task(given: Any) -> str | None:
    """The task that another name for it means."""
    if not isinstance(given, str):
        return None
    folded = _fold(given.strip())
    return folded if folded in FIELDS else _TASK_NAMES.get(folded)


def unknown_fields(names: Collection[str], tree: Mapping[str, Any], task: str | None) -> str:
    """Fields of a request that no task has, with what is meant; `task` is the request's, if that is known."""
    return _listed(names, _meant(names, tree, task))


def unknown_document_fields(names: Collection[str], document: Mapping[str, Any]) -> str:
    """The same of a document."""
    return _listed(names, {name: remedy for name in names if (remedy := meant_document_field(name, document))})


def meant_document_field(name: str, document: Mapping[str, Any]) -> str | None:
    """What is meant by a document's unknown field, unless that is there."""
    folded = _fold(name)
    return _remedy(folded if folded in DOCUMENT_FIELDS else _DOCUMENT.get(folded), document, DOCUMENT_FIELDS)


def foreign_fields(names: Iterable[str], tree: Mapping[str, Any], task: str) -> str:
    """Fields of a request that belong to other tasks, with what is meant."""
    meant = _meant(names, tree, task)
    told = [f"`{name}` does not belong to task {task}{_in_brackets(meant.get(name))}" for name in sorted(names)]
    return "; ".join(told)


def _meant(names: Iterable[str], tree: Mapping[str, Any], task: str | None) -> dict[str, str]:
    """What to do with those of these names that mean something, unless what they mean is there."""
    fields = FIELDS[task] if task else ALL_FIELDS
    spelled = {_fold(field): field for field in fields}
    tables: list[_Meanings] = [spelled]
    if task:
        tables += [_TASKS[task], *([_SCORING] if "raw_scores" in fields else []), _EVERYWHERE]
    meant = {}
    for name in names:
        folded = _fold(name)
        remedy = _remedy(next((table[folded] for table in tables if folded in table), None), tree, fields)
        if remedy:
            meant[name] = remedy
    return meant


def _remedy(meaning: str | None, given: Mapping[str, Any], fields: Collection[str]) -> str | None:
    if meaning is None or meaning not in fields:
        return meaning
    return f"write `{meaning}`" if given.get(meaning) is None else None


def _listed(names: Collection[str], meant: Mapping[str, str]) -> str:
    """Those whose meaning is known first, the task before all."""
    first = nsmallest(_MAX_SHOWN, names, key=lambda name: (name not in meant, meant.get(name) != "write `task`", name))
    shown = ", ".join(shown_name(name) + _in_brackets(meant.get(name)) for name in first)
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f"unknown {'field' if len(names) == 1 else 'fields'} {shown}{more}"


def _in_brackets(remedy: str | None) -> str:
    return f" ({remedy})" if remedy else ""
