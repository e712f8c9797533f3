"""No request's id reaches a key that is not its own deployment's, whatever prefixes and ids are."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from consumer.errors import SettingsInvalid
from consumer.finding import Level
from consumer.key_prefix import CLAIMS_KEY, NAMESPACE, overlap, owner_key, why_unfit
from consumer.settings import load_settings
from consumer.startup import PrefixClaim, check_prefix

OWNER = "cluster/topic/group"
PIECES = ["", "s", "score", "score:", "scorest", "scorestream", "scorestream:", "owner:", "prefixes", "v2:", "{a}", "é"]
texts = st.one_of(
    st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=12),
    st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
)


@given(prefix=texts, request_id=texts, other=texts)
@example(prefix="scorestream:", request_id="owner:scorestream:", other="scorestream:")
@example(prefix="scorest", request_id="ream:owner:score:", other="score:")
@example(prefix="", request_id="scorestream:prefixes", other="score:")
def test_no_id_reaches_a_key_of_our_own(prefix: str, request_id: str, other: str) -> None:
    assume(why_unfit(prefix) is None)
    key = prefix + request_id
    assert key not in {CLAIMS_KEY, owner_key(other), owner_key(prefix)}
    assert not key.startswith(NAMESPACE)


@given(first=texts, second=texts, ids=st.tuples(texts, texts))
@example(first="score:", second="score:v2:", ids=("v2:q1", "q1"))
def test_two_deployments_share_no_key_and_no_channel(first: str, second: str, ids: tuple[str, str]) -> None:
    taken = check_prefix(second, "cluster/topic/other", [PrefixClaim(first, OWNER)])
    assert not taken.ok or first + ids[0] != second + ids[1]


@given(first=texts, second=texts)
def test_prefixes_overlap_as_code_points_exactly_when_they_do_as_bytes(first: str, second: str) -> None:
    """Settings compare text, Redis compares bytes."""
    one, other = first.encode(), second.encode()
    assert overlap(first, second) is (one.startswith(other) or other.startswith(one))


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "s",
        "score",
        "scorest",
        "scorestream",
        "scorestream:",
        "scorestream:owner:",
        "scorestream:x",
        "a\nb",
        "a\x85",
    ],
)
def test_a_prefix_that_reaches_our_keys_is_refused_with_the_settings(prefix: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"^redis\.prefix: .*set one"):
        load_settings({"engine.kind": "scripted", "redis.prefix": prefix})


@pytest.mark.parametrize(
    "prefix", ["score:", "score-v2:", "scores:", "Scorestream:", "scorestreams:", "{score}:", "é:", " "]
)
def test_any_other_prefix_is_taken(prefix: str) -> None:
    assert load_settings({"engine.kind": "scripted", "redis.prefix": prefix}).redis.prefix == prefix


@pytest.mark.parametrize(
    ("prefix", "claimed", "found"),
    [
        ("score:v2:", "score:", "score:v2: begins with score: (the id v2:x under score: and the id x under score:v2:"),
        ("score:", "score:v2:", "score: is the beginning of score:v2: (the id v2:x under score: and the id x under"),
        ("score:", "score:", "score: is claimed by cluster/topic/other"),
    ],
)
def test_a_prefix_too_near_to_a_claimed_one_is_refused_with_the_commands(prefix: str, claimed: str, found: str) -> None:
    finding = check_prefix(prefix, OWNER, [PrefixClaim(claimed, "cluster/topic/other", 3 * 86_400)])
    assert finding.level is Level.FAIL
    assert finding.found.startswith(found)
    assert "cluster/topic/other (last seen 3 days ago)" in finding.found
    assert f"redis-cli HDEL scorestream:prefixes {claimed}; redis-cli DEL scorestream:owner:{claimed}" in finding.fix


def test_a_deployment_is_not_let_under_a_prefix_too_near_to_its_own_former_one() -> None:
    """While one worker still has the old one and another the new, they share keys like any two."""
    assert not check_prefix("score:v2:", OWNER, [PrefixClaim("score:", OWNER)]).ok
    assert check_prefix("score-v2:", OWNER, [PrefixClaim("score:", OWNER)]).ok


def test_the_command_is_one_for_a_shell() -> None:
    finding = check_prefix("a b'c", OWNER, [PrefixClaim("a b'c", "x/y/z")])
    assert """HDEL scorestream:prefixes 'a b'"'"'c'; redis-cli DEL scorestream:owner:'a b'"'"'c'""" in finding.fix
