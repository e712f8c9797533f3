"""Which prompt a query and a document get, and that none is left out without a word."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.model.folders import BERT, MEAN, model_folder
from tests.unit.model.test_model_card import card, refusal


def folder(path: Path, prompts: Any, default: str | None = None) -> Path:
    stated = {"prompts": prompts, "default_prompt_name": default}
    return model_folder(path, BERT, files=MEAN | {"config_sentence_transformers.json": stated})


@pytest.mark.parametrize(
    ("prompts", "default", "by_role"),
    [
        ({}, None, ("", "")),
        (None, None, ("", "")),
        ({"query": "", "document": ""}, None, ("", "")),
        ({"query": None, "document": None}, None, ("", "")),
        ({"query": "", "document": ""}, "query", ("", "")),
        ({}, "query", ("", "")),
        ({"query": "q: "}, None, ("q: ", "")),
        ({"query": "q: ", "document": ""}, None, ("q: ", "")),
        ({"document": "d: "}, None, ("", "d: ")),
        ({"query": "q: ", "passage": "p: "}, None, ("q: ", "p: ")),
        ({"query": "q: ", "corpus": "c: "}, None, ("q: ", "c: ")),
        ({"query": "q: ", "document": "d: ", "passage": "p: "}, None, ("q: ", "d: ")),
        ({"query": "q: ", "document": "d: ", "clustering": "c: "}, None, ("q: ", "d: ")),
        ({"query": "q: ", "document": "d: "}, "query", ("q: ", "d: ")),
        ({"text": "t: "}, "text", ("t: ", "t: ")),
        ({"text": "t: ", "query": "q: "}, "text", ("q: ", "t: ")),
        ({"text": "", "unused": ""}, None, ("", "")),
    ],
)
def test_each_role_has_the_prompt_of_its_name_or_that_for_all_texts(
    tmp_path: Path, prompts: Any, default: str | None, by_role: tuple[str, str]
):
    found = card(folder(tmp_path, prompts, default))
    assert (found.query_prompt, found.document_prompt) == by_role


@pytest.mark.parametrize(
    ("prompts", "default", "missing"),
    [
        ({"search_query": "search_query: ", "search_document": "search_document: "}, None, ("query", "document")),
        ({"retrieval.query": "Query: ", "retrieval.passage": "Passage: "}, None, ("query", "document")),
        ({"Query": "q: ", "Document": "d: "}, None, ("query", "document")),
        ({"web_search_query": "Instruct: ", "sts_query": "Instruct: "}, None, ("query", "document")),
        ({"clustering": "c: "}, None, ("query", "document")),
        # As sentence-transformers writes them when it saves a model with prompts of other names.
        ({"query": "", "document": "", "search_query": "search_query: "}, None, ("query", "document")),
        ({"query": "q: ", "document": "", "passage": "p: "}, None, ("document",)),
        ({"query": "q: ", "clustering": "c: "}, None, ("document",)),
        ({"document": "d: ", "search_query": "q: "}, None, ("query",)),
        ({"search_query": "q: ", "search_document": "d: "}, "search_document", ("query", "document")),
        ({"query": "", "document": "", "text": "t: "}, "text", ("query", "document")),
        ({"query": "q: "}, "query", ("document",)),
        ({"passage": "p: "}, "passage", ("query",)),
    ],
)
def test_prompts_that_no_role_takes_are_refused_until_settings_say_which_it_has(
    tmp_path: Path, prompts: dict, default: str | None, missing: tuple[str, ...]
):
    model = folder(tmp_path, prompts, default)
    text = refusal(model)
    assert all(repr(prompt) in text for prompt in prompts.values() if prompt)
    for role in ("query", "document"):
        assert (f"engine.{role}_prompt" in text) == (role in missing)
    for role in missing[:-1]:
        assert "engine." in refusal(model, **{f"{role}_prompt": "x: "}), "one of two is not enough"
    found = card(model, **{f"{role}_prompt": "x: " for role in missing})
    assert [getattr(found, f"{role}_prompt") for role in missing] == ["x: "] * len(missing)
    none = card(model, query_prompt="", document_prompt="")
    assert (none.query_prompt, none.document_prompt) == ("", "")


def test_of_very_many_prompts_a_few_are_named(tmp_path: Path):
    text = refusal(folder(tmp_path, {f"task-{number}": f"Instruct {number}: " for number in range(100)}))
    assert "task-4" in text
    assert "task-5" not in text
    assert "and 95 more" in text


@pytest.mark.parametrize(
    ("prompts", "default", "says"),
    [({"query": 3}, None, "no text"), ({"query": "q: "}, "text", "no prompt of that name")],
)
def test_prompts_that_say_nothing_are_refused(tmp_path: Path, prompts: dict, default: str | None, says: str):
    assert says in refusal(folder(tmp_path, prompts, default))
