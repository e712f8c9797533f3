"""A window of attention on all, some or none of a decoder's layers gives transformers' numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.models import embedders
from tests.parity.embedders import vectors
from tests.parity.kinds import TEXTS, Kind, embed, vector
from tests.parity.loaded import load_forked
from tests.parity.measure import WITHIN, measure

WINDOW = {"use_sliding_window": True, "sliding_window": 24}


@pytest.mark.parametrize(
    ("family", "config", "longest"),
    [
        ("Qwen3", WINDOW | {"max_window_layers": 0}, 256),
        ("Qwen2", WINDOW | {"max_window_layers": 2}, 256),
        ("Qwen3", WINDOW | {"max_window_layers": 1}, 24),
        ("Llama", WINDOW, 256),
    ],
    ids=["all layers", "no layer", "some layers and no longer text", "a family without windows"],
)
async def test_numbers_equal_transformers(tmp_path: Path, family: str, config: dict[str, Any], longest: int):
    folder = tmp_path / "m"
    shutil.copytree(embedders.decoder(family), folder)
    stated = json.loads((folder / "config.json").read_text())
    stated.pop("layer_types", None)  # transformers makes them of the others
    (folder / "config.json").write_text(json.dumps(stated | config))
    expected = vectors(folder, TEXTS, max_tokens=longest)
    kind = Kind("windows", lambda: folder, embed, vector, lambda _folder: expected)
    loaded = await load_forked(folder, max_model_len=longest)
    try:
        assert (await measure(loaded, kind, expected)).largest <= WITHIN
    finally:
        await loaded.engine.stop()
