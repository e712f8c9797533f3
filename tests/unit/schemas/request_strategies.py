"""Generated requests: what the contract allows, and material to break it with."""

from typing import Any

from hypothesis import strategies as st

MARKER = "zqxj7"

texts = st.text(max_size=20) | st.just(MARKER)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts
names = st.sampled_from(
    [
        *("schema", "id", "task", "model", "deadline_unix_ms", "timeout_ms", "priority", "truncate", "ttl_seconds"),
        *("metadata", "query", "documents", "document", "input", "top_n", "return_documents", "instruction"),
        *("max_tokens_per_doc", "raw_scores", "top_k", "dimensions", "normalize", "role", "encoding_format"),
        *("processor", "data", "text", "topn"),
    ]
)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
document = texts | st.fixed_dictionaries({"text": texts}, optional={"id": st.none() | st.text(min_size=1, max_size=5)})
documents = st.lists(document, min_size=1, max_size=5)

# Their own JSON, as orjson and the contract know it.
finite = st.floats(allow_nan=False, allow_infinity=False)
json_leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | st.text(max_size=10)
json_trees = st.recursive(
    json_leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)

positive = st.none() | st.integers(1, 2**63 - 1)
shared: dict[str, Any] = {
    "schema": st.sampled_from([None, 1]),
    "model": st.none() | texts,
    "priority": st.none() | st.integers(-100, 100),
    "truncate": st.none() | st.booleans(),
    "ttl_seconds": st.none() | st.integers(1, 86_400),
    "metadata": st.none() | st.dictionaries(st.text(max_size=5), json_trees, max_size=3),
}
deadlines = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"deadline_unix_ms": st.integers(10**12, 10**13)}, optional={"timeout_ms": st.none()}),
    st.fixed_dictionaries({"timeout_ms": positive}, optional={"deadline_unix_ms": st.none()}),
)
ids = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=256)
flags = st.none() | st.booleans()
instructions = st.none() | texts


def requests_of(task: str, required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    base = st.fixed_dictionaries({"id": ids, "task": st.just(task), **required}, optional=shared | optional)
    return st.tuples(base, deadlines).map(lambda both: both[0] | both[1])


valid_requests = st.one_of(
    requests_of(
        "rerank",
        {"query": texts, "documents": documents},
        {
            "top_n": positive,
            "return_documents": flags,
            "instruction": instructions,
            "max_tokens_per_doc": positive,
            "raw_scores": flags,
            "input": st.none(),
        },
    ),
    requests_of(
        "score",
        {"query": texts, "document": document},
        {"instruction": instructions, "raw_scores": flags, "documents": st.none()},
    ),
    requests_of("classify", {"input": document | documents}, {"top_k": positive, "raw_scores": flags}),
    requests_of(
        "embed",
        {"input": document | documents},
        {
            "dimensions": positive,
            "normalize": flags,
            "role": st.sampled_from([None, "query", "document"]),
            "encoding_format": st.sampled_from([None, "float", "base64"]),
            "raw_scores": st.none(),
        },
    ),
    requests_of("plugin", {"processor": st.text(min_size=1, max_size=10)}, {"data": json_trees}),
)
