"""Which headers a result carries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.headers import HeadersTooLarge, check_request_headers, result_headers

OWN = (
    ("scorestream-id", "\u00e9".encode()),
    ("scorestream-status", b"ok"),
    ("scorestream-schema", b"1"),
    ("scorestream-source-topic", b"score.requests"),
    ("scorestream-source-partition", b"7"),
    ("scorestream-source-offset", b"42"),
)


def headers_of_a_result(caller):
    return result_headers(
        caller, id="\u00e9", status="ok", source_topic="score.requests", source_partition=7, source_offset=42
    )


keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda key: not key.startswith("score"))


@given(st.lists(st.tuples(keys, st.none() | st.binary(max_size=8))))
def test_the_caller_s_headers_are_carried_byte_for_byte_in_order_before_ours(caller):
    assert headers_of_a_result(caller) == (*caller, *OWN)


def test_duplicates_nulls_and_bytes_that_are_no_text_are_carried():
    caller = (("a", b"\xc3("), ("a", None), ("a", b"\xc3("), ("traceparent", b"00-x"), ("tracestate", b"k=v"))
    assert headers_of_a_result(caller) == (*caller, *OWN)


def test_reserved_headers_of_the_caller_are_dropped():
    caller = (("scorestream-status", b"error"), ("scorestream-", b""), ("scorestream-replay-of", b"t/0/1"), ("a", b"1"))
    assert headers_of_a_result(caller) == (("a", b"1"), *OWN)


def test_request_headers_have_at_most_16_kib_in_all():
    check_request_headers([("ab", b"x" * 8190), ("\u00e9", b"y" * 8190)])
    with pytest.raises(HeadersTooLarge, match="16385 bytes"):
        check_request_headers([("ab", b"x" * 8190), ("\u00e9", b"y" * 8190), ("z", None)])
