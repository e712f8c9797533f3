"""A Redis that does not know every command: before version 6, behind a proxy, or with commands that were renamed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from typer import Exit

from consumer.adapters.redis_scores import read_facts
from consumer.errors import SettingsInvalid
from consumer.sections import RedisSettings
from consumer.startup import RedisFacts, RedisRefused
from producer_tools.connections.redis import RedisServer
from producer_tools.connections.redis_refusal import words_of
from producer_tools.console import run_tool
from producer_tools.get import get_from_redis
from tests.contract.caches import PATIENCE_SECONDS, RedisCache, entry
from tests.services.redis import RedisNode
from tests.services.secured_redis import RedisClusterNodes, SentinelNode


class Renamed(RedisNode):
    """`command`: one that it does not know."""

    def __init__(self, folder: Path, command: str, options: dict[str, str] | None = None) -> None:
        super().__init__(folder, options)
        self._command = command

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        arguments, environment = super().command()
        return [*arguments, "--rename-command", self._command, ""], environment

    async def check_ready(self) -> None:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.close()


@pytest_asyncio.fixture
async def without_hello(tmp_path: Path) -> AsyncIterator[Renamed]:
    node = Renamed(tmp_path, "HELLO", {"requirepass": "admin"})
    await node.start()
    yield node
    await node.stop()


@pytest_asyncio.fixture
async def redis_node(tmp_path: Path) -> AsyncIterator[RedisNode]:
    node = RedisNode(tmp_path)
    await node.start()
    yield node
    await node.stop()


@pytest.mark.parametrize("user", ["", "worker"], ids=["password alone", "user"])
async def test_worker_and_tools_do_without_hello(without_hello: Renamed, user: str) -> None:
    url = f"redis://{user}:admin@127.0.0.1:{without_hello.port}/0"
    async with Redis.from_url(f"redis://:admin@127.0.0.1:{without_hello.port}", protocol=2) as administrator:
        await administrator.execute_command("ACL", "SETUSER", "worker", "on", ">admin", "~*", "&*", "+@all", "-hello")
    cache = RedisCache(url)
    await cache.listen()
    assert isinstance(await read_facts(cache.settings), RedisFacts)
    await cache.store.claim_prefix("cluster/topic/group", 0.0)
    waiting = asyncio.create_task(
        get_from_redis("id", server=RedisServer(url), prefix=cache.prefix, wait_seconds=PATIENCE_SECONDS)
    )
    assert await cache.store.write([entry()]) == 0
    assert await cache.published(1) == [("id", "ok")]
    assert await waiting == entry().value
    await cache.close()


async def test_so_do_those_that_come_by_sentinels(tmp_path: Path) -> None:
    master = Renamed(tmp_path / "master", "HELLO")
    sentinel = SentinelNode(tmp_path / "sentinel", "scores", master)
    for node in (master, sentinel):
        await node.start()
    cache = RedisCache(f"redis+sentinel://127.0.0.1:{sentinel.port}/scores/0", timeout_seconds=5.0)
    assert isinstance(await read_facts(cache.settings), RedisFacts)
    assert await cache.store.write([entry()]) == 0
    await cache.close()
    for node in (sentinel, master):
        await node.stop()


async def test_a_sentinel_and_a_node_of_a_cluster_are_told_from_a_server(
    redis_cluster: RedisClusterNodes, redis: RedisNode, tmp_path: Path
) -> None:
    sentinel = SentinelNode(tmp_path, "scores", redis)
    await sentinel.start()
    for node, mode in ((sentinel, "sentinel"), *((node, "cluster") for node in redis_cluster.nodes)):
        facts = await read_facts(RedisSettings(url=SecretStr(f"redis://127.0.0.1:{node.port}")))
        assert isinstance(facts, RedisFacts), facts
        assert facts.mode == mode
    await sentinel.stop()


@pytest.mark.parametrize(
    ("credentials", "said"),
    [
        ("", "Authentication required"),
        (":s3cret@", "invalid username-password pair"),
        ("worker:s3cret@", "invalid username-password pair"),
    ],
    ids=["none", "wrong password", "unknown user"],
)
async def test_credentials_that_redis_does_not_take_are_named_and_not_shown(
    without_hello: Renamed, credentials: str, said: str
) -> None:
    facts = await read_facts(RedisSettings(url=SecretStr(f"redis://{credentials}127.0.0.1:{without_hello.port}/0")))
    assert isinstance(facts, RedisRefused)
    assert facts.reason == f"127.0.0.1:{without_hello.port}: {facts.reason.partition(': ')[2]}"
    assert said in facts.reason
    assert "s3cret" not in facts.reason
    assert not facts.fix, "user, password and rights, as for every refusal"


async def test_a_password_that_came_to_be_asked_for_is_named_whatever_was_to_be_written(redis_node: RedisNode) -> None:
    """Of a command of many arguments Redis says that it breaks the protocol."""
    cache = RedisCache(redis_node.url)
    await cache.store.write([entry()])
    await cache.client.config_set("requirepass", "another")
    await cache.client.client_kill_filter(_type="normal", skipme=False)
    for number in (1, 50):
        with pytest.raises(SettingsInvalid, match="refuses its user or password"):
            await cache.store.write([entry(f"{n}") for n in range(number)])
    with pytest.raises(RedisError) as refused:
        await cache.client.mget([f"{n}" for n in range(50)])
    assert words_of(refused.value) == "Authentication required."
    await cache.close()


async def test_a_password_that_nobody_asked_for_is_taken(redis: RedisNode) -> None:
    """As it was with HELLO."""
    url = redis.url.replace("//", "//:anything@")
    assert isinstance(await read_facts(RedisSettings(url=SecretStr(url))), RedisFacts)


@pytest.mark.parametrize("command", ["AUTH", "INFO", "EVALSHA", "GETRANGE", "HSET"])
async def test_a_command_that_is_not_known_is_named_and_its_arguments_are_not_shown(
    tmp_path: Path, command: str
) -> None:
    node = Renamed(tmp_path, command)
    await node.start()
    facts = await read_facts(RedisSettings(url=SecretStr(f"redis://:s3cret@127.0.0.1:{node.port}/0")))
    assert isinstance(facts, RedisRefused)
    assert facts.reason == f"127.0.0.1:{node.port}: does not know the command {command}"
    assert f"take {command}" in facts.fix
    await node.stop()


def test_no_tool_shows_the_arguments_of_a_command_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    async def refused() -> None:
        raise ResponseError("unknown command 'AUTH', with args beginning with: 'default' 's3cret' ")

    with pytest.raises(Exit):
        run_tool(refused())
    assert capsys.readouterr().err == "error: unknown command 'AUTH'\n"
