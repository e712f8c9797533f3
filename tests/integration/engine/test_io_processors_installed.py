"""Which IO processors are found by their entry points, and which are refused with the fix."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import SettingsInvalid
from consumer.io_processors import GROUP
from consumer.sections import EngineSettings
from tests.services.distribution import write_distribution

PROCESSORS = """
from vllm.plugins.io_processors.interface import IOProcessor

class Whole(IOProcessor):
    def parse_data(self, data): return data
    def pre_process(self, prompt, request_id=None, **more): return prompt
    def post_process(self, model_output, request_id=None, **more): return None

class WithoutParse(IOProcessor):
    def pre_process(self, prompt, request_id=None, **more): return prompt
    def post_process(self, model_output, request_id=None, **more): return None

def whole(): return "processors.Whole"
def not_here(): return None
def misspelt(): return "processors.Hole"
def failing(): raise OSError("no licence")
def without_parse(): return "processors.WithoutParse"
def abstract(): return "vllm.plugins.io_processors.interface.IOProcessor"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Install processors of PROCESSORS by name, and find their classes."""

    def find(*names: str, io_processors: tuple[str, ...] | None = None) -> Any:
        from consumer.adapters.vllm_plugins import processor_classes  # noqa: PLC0415 - imports vLLM

        points = {name: f"processors:{name}" for name in names}
        write_distribution(tmp_path / "site", "processors", GROUP, points, PROCESSORS)
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.delitem(sys.modules, "processors", raising=False)
        return processor_classes(EngineSettings(io_processors=io_processors))

    return find


def test_a_processor_is_the_class_that_its_entry_point_names(installed: Callable[..., Any]):
    assert {name: found.__name__ for name, found in installed("whole").items()} == {"whole": "Whole"}


def test_one_that_is_not_for_this_machine_is_left_out_unless_it_is_named(installed: Callable[..., Any], tmp_path: Path):
    assert [*installed("whole", "not_here")] == ["whole"]
    shutil.rmtree(tmp_path / "site")
    with pytest.raises(SettingsInvalid, match="not_here says that it is not for this machine"):
        installed("whole", "not_here", io_processors=("not_here",))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("misspelt", "misspelt does not load: .*Hole"),
        ("failing", "failing does not load: OSError: no licence: mend or uninstall its package"),
        ("without_parse", "without_parse has no parse_data"),
        ("abstract", "abstract is not a class with pre_process and post_process"),
    ],
)
def test_a_processor_that_does_not_load_is_refused_with_the_fix(installed: Callable[..., Any], name: str, said: str):
    with pytest.raises(SettingsInvalid, match=said):
        installed("whole", name)
