"""Made-up requests."""

import pytest

from producer_tools.generate import GeneratedTask, generate_requests, unique_prefix
from schemas.wire import RequestLimits, parse_request


@pytest.mark.parametrize("task", GeneratedTask)
def test_made_up_requests_are_valid_and_the_same_for_the_same_seed(task: GeneratedTask) -> None:
    first, second = (list(generate_requests(task, 5, items=3, words=20, seed=1, id_prefix="x")) for _ in range(2))
    assert first == second
    assert first != list(generate_requests(task, 5, items=3, words=20, seed=2, id_prefix="x"))
    for request_id, value in first:
        request = parse_request(value, RequestLimits())
        assert (request.id, request.task) == (request_id, task.value)


def test_texts_have_about_the_words_asked_for() -> None:
    requests = generate_requests(GeneratedTask.EMBED, 50, items=4, words=30, seed=0, id_prefix="x")
    lengths = [len(one.text.split()) for _, raw in requests for one in parse_request(raw, RequestLimits()).inputs]
    assert 15 <= min(lengths) <= max(lengths) <= 45
    assert 25 <= sum(lengths) / len(lengths) <= 35


def test_two_runs_have_different_ids() -> None:
    assert unique_prefix("bench") != unique_prefix("bench")
