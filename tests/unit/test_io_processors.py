"""Which IO processors a worker offers: those that are installed, or those of them that are named."""

from pathlib import Path

import pytest

from consumer.errors import SettingsInvalid
from consumer.io_processors import GROUP, chosen_io_processors, distribution_of
from consumer.model.card import ModelKind
from consumer.model.recognise import recognise
from consumer.sections import EngineSettings
from consumer.settings import load_settings
from tests.services.distribution import write_distribution
from tests.unit.model.folders import BERT, MEAN, model_folder


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with two processors; importing it would fail."""
    folder = tmp_path / "site"
    write_distribution(folder, "twins", GROUP, {"twin_b": "twins:b", "twin_a": "twins:a"}, code="raise ImportError")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)


@pytest.mark.usefixtures("installed")
def test_all_that_are_installed_are_offered_without_importing_them():
    chosen = chosen_io_processors(EngineSettings())
    assert [*chosen] == ["twin_a", "twin_b"]
    assert distribution_of(chosen["twin_a"]) == "twins 1.0"


@pytest.mark.usefixtures("installed")
def test_settings_may_name_some_of_them_or_none(monkeypatch: pytest.MonkeyPatch):
    assert [*chosen_io_processors(EngineSettings(io_processors=("twin_b",)))] == ["twin_b"]
    assert chosen_io_processors(EngineSettings(io_processors=())) == {}
    monkeypatch.setenv("SCORESTREAM_ENGINE__IO_PROCESSORS", "twin_b, twin_a")
    settings = load_settings({"engine.model": "m"})
    assert [*chosen_io_processors(settings.engine)] == ["twin_b", "twin_a"]


@pytest.mark.usefixtures("installed")
def test_one_that_is_named_and_not_installed_is_refused_naming_those_that_are():
    with pytest.raises(SettingsInvalid, match=r"names other: install the package.*there is twin_a, twin_b"):
        chosen_io_processors(EngineSettings(io_processors=("twin_a", "other")))


@pytest.mark.usefixtures("installed")
def test_vllms_own_list_of_allowed_plugins_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLLM_PLUGINS", "twin_a,another")
    assert [*chosen_io_processors(EngineSettings())] == ["twin_a"]


@pytest.mark.usefixtures("installed")
def test_the_scripted_engine_has_none():
    assert chosen_io_processors(EngineSettings(kind="scripted")) == {}


@pytest.mark.usefixtures("installed")
def test_a_model_that_nothing_is_known_of_is_left_to_them(tmp_path: Path):
    folder = model_folder(tmp_path, BERT | {"architectures": ["OnesOwnModel"]})
    card = recognise(EngineSettings(model=str(folder)))
    assert card.kind is ModelKind.CUSTOM
    assert card.tasks == ()


def test_without_them_it_is_refused(tmp_path: Path):
    folder = model_folder(tmp_path, BERT | {"architectures": ["OnesOwnModel"]})
    with pytest.raises(SettingsInvalid, match="this architecture is not supported: OnesOwnModel"):
        recognise(EngineSettings(model=str(folder), io_processors=()))


@pytest.mark.usefixtures("installed")
def test_a_model_of_a_known_family_keeps_its_own_tasks(tmp_path: Path):
    card = recognise(EngineSettings(model=str(model_folder(tmp_path, BERT, files=MEAN))))
    assert card.kind is not ModelKind.CUSTOM
