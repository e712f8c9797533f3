"""The demo's corpus and requests."""

from producer_tools.demo.corpus import MAX_CHARACTERS, MIN_CHARACTERS, QUESTIONS, collect_docstrings
from producer_tools.demo.work import DOCUMENTS_PER_REQUEST, embed_requests, rerank_requests
from schemas.wire import RequestLimits, parse_request

ANSWERS = ("glob.glob", "subprocess.run", "functools.lru_cache", "difflib.unified_diff", "asyncio.tasks.gather",
           "shutil.copytree", "statistics.median", "secrets.token_hex")  # fmt: skip


def test_the_corpus_holds_hundreds_of_documents_and_an_answer_to_each_question() -> None:
    documents = collect_docstrings(600)
    names = {one.name for one in documents}
    assert len(names) == len(documents) >= 500
    assert set(ANSWERS) <= names
    assert all(1 <= len(one.text) <= MAX_CHARACTERS for one in documents)
    assert MIN_CHARACTERS < MAX_CHARACTERS


def test_every_question_is_asked_of_every_document_once() -> None:
    documents = collect_docstrings(60)
    asked = [parse_request(value, RequestLimits()) for _, value in rerank_requests(documents)]
    for question in QUESTIONS:
        ranked = [one.id for request in asked if request.query == question for one in request.documents]
        assert ranked == [one.name for one in documents]
    assert max(len(request.documents) for request in asked) == DOCUMENTS_PER_REQUEST


def test_the_demo_uses_no_id_twice() -> None:
    documents = collect_docstrings(60)
    ids = [request_id for request_id, _ in [*rerank_requests(documents), *embed_requests(documents)]]
    assert len(set(ids)) == len(ids)
