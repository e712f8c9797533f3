"""What whoever plays an incident blind is told, and when."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.incidents import blind
from tests.chaos.incidents.catalogue import Incident
from tests.chaos.judgement import Place


class Stage:
    """A scene on which nothing runs, and an incident that cannot be undone."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.prometheus = SimpleNamespace(url="http://127.0.0.1:9090")
        self.pods = [SimpleNamespace(name="worker-0", url="http://127.0.0.1:8080")]
        self.place = Place("127.0.0.1:9092", "redis://127.0.0.1:6379", blind.NAME)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        yield

    async def fired(self, _seconds: float) -> dict[str, str]:
        return {"ScorestreamDown": "critical"}

    @asynccontextmanager
    async def strike(self, _scene: object) -> AsyncIterator[None]:
        yield
        raise TimeoutError("it does not come back")

    async def play(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        incident = Incident(name="comet", strike=self.strike, alerts=("ScorestreamDown",))
        servers: Any = None
        monkeypatch.setattr("sys.stdin", StringIO("\n"))
        monkeypatch.setattr(blind, "CATALOGUE", (incident,))
        monkeypatch.setattr(blind, "Scene", lambda *_arguments: self)
        await blind.play(servers, 7, 1, folder, self.told.append)


async def test_the_name_is_told_before_the_incident_is_undone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage = Stage()
    with pytest.raises(TimeoutError, match="does not come back"):
        await stage.play(monkeypatch, tmp_path)
    assert stage.told[1:] == [
        "it is comet: docs/operate.md#scorestreamdown; what fired: ScorestreamDown; undoing it",
    ]


async def test_every_address_is_told_with_what_it_is_and_the_name_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage = Stage()
    with pytest.raises(TimeoutError):
        await stage.play(monkeypatch, tmp_path)
    addresses = stage.told[0]
    assert "Prometheus: http://127.0.0.1:9090/alerts" in addresses
    assert "worker-0: http://127.0.0.1:8080/metrics, " in addresses
    assert f"its logs: {tmp_path / 'drill' / 'worker-0'}" in addresses
    assert "Kafka, without credentials: 127.0.0.1:9092; topics: drill.requests, " in addresses
    assert "Redis: redis://127.0.0.1:6379" in addresses
    assert "comet" not in addresses
