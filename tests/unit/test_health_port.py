"""Who listens already where a worker's health is to be asked, and what a check says of it."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from consumer.adapters.health_port import who_listens
from consumer.sections import HealthSettings
from consumer.startup.health import check_health_port
from tests.services.process import free_port

WORKER = {"ok": False, "reasons": [{"condition": "starting", "detail": "loads the model"}]}
SUPERVISOR = {"ok": True, "problem": None, "workers": []}


@asynccontextmanager
async def answering(health: HealthSettings, document: object) -> AsyncIterator[None]:
    """An HTTP server there, which answers /livez with this."""

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(document)

    app = web.Application()
    app.router.add_get("/livez", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    if health.unix_socket:
        await web.UnixSite(runner, health.unix_socket).start()
    else:
        await web.TCPSite(runner, "127.0.0.1", health.port).start()
    try:
        yield
    finally:
        await runner.cleanup()


def _is_there(health: HealthSettings) -> bool:
    return health.unix_socket is not None and Path(health.unix_socket).exists()


async def level(health: HealthSettings) -> tuple[str, str]:
    [finding] = check_health_port(health, await who_listens(health))
    return finding.level, f"{finding.name}: {finding.found}"


@pytest.fixture(params=["port", "socket"])
def health(request: pytest.FixtureRequest, tmp_path: Path) -> HealthSettings:
    if request.param == "socket":
        return HealthSettings(unix_socket=str(tmp_path / "s"))
    return HealthSettings(host="127.0.0.1", port=free_port())


async def test_a_free_place_is_fine_and_stays_free(health: HealthSettings) -> None:
    for _ in range(2):
        found, text = await level(health)
        assert found == "ok"
        assert "is free" in text
    assert not _is_there(health)


@pytest.mark.parametrize("document", [WORKER, SUPERVISOR])
async def test_a_worker_that_answers_there_already_is_known_as_one(health: HealthSettings, document: object) -> None:
    async with answering(health, document):
        found, text = await level(health)
        assert found == "ok"
        assert "a worker answers on" in text


@pytest.mark.parametrize("document", [{"ok": True}, [], "fine"])
async def test_another_server_there_keeps_a_worker_from_starting(health: HealthSettings, document: object) -> None:
    async with answering(health, document):
        found, text = await level(health)
        assert found == "FAIL"
        assert "and is no worker" in text


async def test_the_process_that_has_the_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found, text = await level(HealthSettings(port=taken.getsockname()[1]))
        assert found == "FAIL"
        assert f"(process {os.getpid()}) listens on port {taken.getsockname()[1]} of ::" in text


async def test_an_address_of_another_machine_is_refused() -> None:
    found, text = await level(HealthSettings(host="192.0.2.1", port=free_port()))
    assert found == "FAIL"
    assert "health.host is 192.0.2.1" in text


async def test_a_socket_in_no_folder_and_one_in_place_of_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "no" / "s", tmp_path / "file"):
        found, _ = await level(HealthSettings(unix_socket=str(path)))
        assert found == "FAIL"
    assert (tmp_path / "file").exists()


async def test_a_socket_that_a_worker_left_behind_is_free(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    found, text = await level(HealthSettings(unix_socket=str(tmp_path / "s")))
    assert (found, "is free" in text) == ("ok", True)
    assert (tmp_path / "s").exists()


async def test_without_a_port_there_is_nothing_to_say() -> None:
    health = HealthSettings(port=0)
    assert check_health_port(health, await who_listens(health)) == []
