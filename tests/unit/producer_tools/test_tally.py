"""The tally's judgement, against one that keeps everything."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from producer_tools.coordinates import Coordinates
from producer_tools.verify.tally import EXAMPLES, Finding, Tally

TOPIC = "requests"
FIRST, COUNT = 100, 12


def told(*events: tuple) -> Tally:
    """A tally over COUNT readable requests of one partition, told these events."""
    tally = Tally(TOPIC, {0: (FIRST, FIRST + COUNT)})
    for offset in range(FIRST, FIRST + COUNT):
        tally.request(0, offset, f"id{offset}")
    for kind, *arguments in events:
        getattr(tally, kind)(*arguments)
    return tally


def result(offset: int, code: str | None = None, partition: int = 0) -> tuple:
    return ("result", Coordinates(TOPIC, 0, offset), partition, f"id{offset}", code)


def dead(offset: int) -> tuple:
    return ("dead_letter", Coordinates(TOPIC, 0, offset))


EVENTS = st.lists(
    st.one_of(
        st.builds(
            result,
            st.integers(FIRST, FIRST + COUNT - 1),
            st.sampled_from([None, "schema", "expired", "from_a_later_worker"]),
        ),
        st.builds(dead, st.integers(FIRST, FIRST + COUNT - 1)),
    ),
    max_size=60,
)


@given(EVENTS)
def test_any_answers_are_judged_as_by_someone_who_remembers_everything(events: list[tuple]) -> None:
    tally = told(*events)
    codes: dict[int, list] = {}
    buried: Counter[int] = Counter()
    firsts: list[int] = []
    for kind, source, *rest in events:
        if kind == "dead_letter":
            buried[source.offset] += 1
            continue
        if source.offset not in codes:
            firsts.append(source.offset)
        codes.setdefault(source.offset, []).append(rest[2])
    expected: Counter[Finding] = Counter()
    for place, offset in enumerate(firsts):
        expected[Finding.OUT_OF_ORDER] += any(earlier > offset for earlier in firsts[:place])
    for offset in range(FIRST, FIRST + COUNT):
        if offset not in codes:
            expected[Finding.RESULT_MISSING if buried[offset] else Finding.UNANSWERED] += 1
        elif buried[offset]:
            expected[Finding.DEAD_LETTER_UNEXPECTED] += not {"schema", "from_a_later_worker"} & set(codes[offset])
        else:
            expected[Finding.DEAD_LETTER_MISSING] += set(codes[offset]) == {"schema"}
    assert +expected == tally.findings().counts
    assert tally.results == len(codes)
    assert tally.duplicates == sum(len(all_codes) - 1 for all_codes in codes.values())
    assert tally.dead_letter_duplicates == buried.total() - len(buried)
    assert tally.unsettled == COUNT - len(codes.keys() | buried.keys())


def test_an_answer_to_every_request_in_order_leaves_nothing_to_say() -> None:
    tally = told(*(result(offset) for offset in range(FIRST, FIRST + COUNT)))
    assert tally.findings().counts == {}
    assert (tally.unsettled, tally.codes) == (0, {"ok": COUNT})


def test_a_request_whose_id_cannot_be_read_gets_a_dead_letter_alone() -> None:
    tally = Tally(TOPIC, {0: (0, 2)})
    tally.request(0, 0, None)
    tally.request(0, 1, None)
    tally.dead_letter(Coordinates(TOPIC, 0, 0))
    tally.result(Coordinates(TOPIC, 0, 1), 0, "invented", None)
    assert tally.findings().counts == {Finding.RESULT_UNEXPECTED: 1}


def test_an_offset_without_a_request_is_no_request_to_be_answered() -> None:
    tally = Tally(TOPIC, {0: (0, 3)})
    tally.request(0, 0, "a")
    tally.result(Coordinates(TOPIC, 0, 0), 0, "a", None)
    assert tally.findings().counts == {}
    tally.result(Coordinates(TOPIC, 0, 1), 0, "b", None)
    assert tally.findings().counts == {Finding.RESULT_OF_NO_REQUEST: 1}


def test_results_of_other_topics_and_other_ranges_are_counted_and_not_judged() -> None:
    tally = told(
        ("result", Coordinates("other", 0, FIRST), 0, "x", None),
        ("result", Coordinates(TOPIC, 7, FIRST), 0, "x", None),
        result(FIRST - 1),
        result(FIRST + COUNT),
        dead(FIRST + COUNT),
    )
    assert (tally.outside, tally.results, tally.dead_letters) == (5, 0, 0)


def test_results_of_another_request_or_on_another_partition_are_found() -> None:
    tally = told(("result", Coordinates(TOPIC, 0, FIRST), 0, "id-of-another", None), result(FIRST + 1, partition=3))
    counts = tally.findings().counts
    assert (counts[Finding.WRONG_ID], counts[Finding.WRONG_PARTITION]) == (1, 1)


def test_the_first_coordinates_of_a_finding_are_named_and_no_more() -> None:
    findings = told().findings()
    assert findings.counts == {Finding.UNANSWERED: COUNT}
    expected = [Coordinates(TOPIC, 0, FIRST + number) for number in range(EXAMPLES)]
    assert findings.examples[Finding.UNANSWERED] == expected
