"""What the contract refuses in a request: unknown fields, fields of other tasks, coercions, wrong documents."""

import pytest

from schemas.errors import ErrorCode

from .request_bytes import as_bytes, refused


@pytest.mark.parametrize("name", ["topn", "inputs", "schema_version", "normalise", "a b"])
@pytest.mark.parametrize("content", [1, None])
def test_an_unknown_field_is_named_even_when_it_is_null(name, content):
    error = refused(as_bytes(**{name: content}))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert f"`{name}`" in error.message


@pytest.mark.parametrize("name", ["x" * 65, "a\nb", "\u202ecba", "\ud83d"])
def test_an_unknown_name_that_is_long_or_does_not_print_is_not_repeated(name):
    for value in (
        as_bytes(**{name: 1}),
        as_bytes(documents=[{"text": "d", name: 1}]),
        as_bytes(metadata={name: 1e999}),
    ):
        assert name not in refused(value).message


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("rerank", "input", "d"),
        ("rerank", "document", "d"),
        ("rerank", "top_k", 1),
        ("score", "documents", ["d"]),
        ("score", "top_n", 1),
        ("classify", "query", "q"),
        ("classify", "normalize", False),
        ("embed", "raw_scores", False),
        ("embed", "instruction", "i"),
        ("plugin", "query", "q"),
        ("plugin", "raw_scores", True),
    ],
)
def test_a_field_of_another_task_is_named_with_the_task(task, name, content):
    error = refused(as_bytes(task, **{name: content}))
    assert error.code == ErrorCode.SCHEMA
    assert error.message.startswith(f"`{name}` does not belong to task {task}")


@pytest.mark.parametrize("task", ["Rerank", "", "colbert", None, 7, [], {}, "embed "])
def test_a_task_that_the_contract_does_not_know_breaks_it(task):
    error = refused(as_bytes(task=task))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`task`" in error.message


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("rerank", "top_n", "2"),
        ("rerank", "top_n", 2.5),
        ("rerank", "top_n", True),
        ("rerank", "top_n", 0),
        ("rerank", "top_n", -1),
        ("rerank", "top_n", 10**30),
        ("rerank", "top_n", 2**63),
        ("rerank", "return_documents", 1),
        ("rerank", "return_documents", "true"),
        ("rerank", "max_tokens_per_doc", 0),
        ("rerank", "raw_scores", 0),
        ("rerank", "query", 5),
        ("rerank", "query", None),
        ("rerank", "query", ["q"]),
        ("rerank", "instruction", 5),
        ("rerank", "documents", "d"),
        ("rerank", "documents", {"0": "d"}),
        ("rerank", "documents", []),
        ("rerank", "documents", None),
        ("score", "document", ["d"]),
        ("score", "document", None),
        ("score", "document", {}),
        ("classify", "input", []),
        ("classify", "input", 5),
        ("classify", "input", None),
        ("classify", "top_k", 0),
        ("embed", "dimensions", 0),
        ("embed", "normalize", "false"),
        ("embed", "role", "passage"),
        ("embed", "encoding_format", "base16"),
        ("plugin", "processor", ""),
        ("plugin", "processor", None),
        ("embed", "model", 1),
        ("embed", "priority", 101),
        ("embed", "priority", -101),
        ("embed", "priority", 0.5),
        ("embed", "truncate", 1),
        ("embed", "timeout_ms", 0),
        ("embed", "timeout_ms", 1.5),
        ("embed", "ttl_seconds", 0),
        ("embed", "ttl_seconds", 86_401),
        ("embed", "metadata", []),
        ("embed", "metadata", "{}"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(task, name, content):
    error = refused(as_bytes(task, **{name: content}))
    assert (error.code, error.id, error.task) == (ErrorCode.SCHEMA, "a", task)
    assert f"`{name}" in error.message


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity", "1e999", '"NaN"'])
def test_a_number_field_takes_no_nan_and_no_infinity(name):
    error = refused(b'{"id":"a","task":"embed","input":"d","priority":' + name.encode() + b"}")
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`priority`" in error.message


@pytest.mark.parametrize(
    ("item", "where"),
    [
        (5, "`documents[1]`"),
        (None, "`documents[1]`"),
        (True, "`documents[1]`"),
        (["d"], "`documents[1]`"),
        ({}, "`documents[1].text`"),
        ({"text": None}, "`documents[1].text`"),
        ({"text": 5}, "`documents[1].text`"),
        ({"text": "d", "id": 7}, "`documents[1].id`"),
        ({"text": "d", "id": ""}, "`documents[1].id`"),
        ({"text": "d", "id": "x" * 257}, "`documents[1].id`"),
        ({"text": "d", "content": "c"}, "`content`"),
        ({"text": "d", "id": "i", "content": None}, "`content`"),
    ],
)
def test_a_bad_document_is_named_by_its_index(item, where):
    error = refused(as_bytes(documents=["d", item, "d"]))
    assert (error.code, error.id, error.index) == (ErrorCode.SCHEMA, "a", 1)
    assert where in error.message


def test_of_many_bad_documents_the_first_is_named():
    error = refused(as_bytes(documents=["d", 5, 5, {"text": 5, "id": 7}]))
    assert (error.index, error.message) == (1, "`documents[1]` must be a string or an object with `text`")


def test_a_fault_that_is_no_item_s_names_no_index():
    assert refused(as_bytes(documents=["d", 5], top_n=0)).index is None
    assert refused(as_bytes(documents=[])).index is None
