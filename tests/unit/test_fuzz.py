"""Whatever the payload, the pure path answers it: no exception, a bounded error or a result, and nothing repeated."""

import structlog

from tests.fuzz.__main__ import fuzz


def test_made_up_payloads_all_end_in_a_bounded_answer_of_many_kinds():
    """`python -m tests.fuzz --count 1000000` is the long form."""
    before = structlog.get_config()
    try:
        endings = fuzz(4000, seed=7)
    finally:
        structlog.configure(**before)
    assert sum(endings.values()) == 4000
    assert endings["ok"] > 400
    assert {"malformed", "schema", "too_long", "empty_input", "non_finite", "engine_rejected"} <= endings.keys()
    assert "internal" not in endings
