"""What an incident strikes: a broker that asks who comes, a Redis, pods under a light load, and who watches them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

import aiohttp

from producer_tools.connections.settings import SaslMechanism, SecurityProtocol
from tests.chaos.deployment import under_load
from tests.chaos.incidents.pod import Pod
from tests.chaos.incidents.rules import JOB, shortened_rules
from tests.chaos.judgement import Place
from tests.chaos.load import Load, Mix
from tests.chart.rendering import NAMESPACE
from tests.services.acls import documented_rules, grant
from tests.services.kafka import create_topics
from tests.services.prometheus import Prometheus
from tests.services.redis import RedisNode
from tests.services.secured_kafka import PASSWORD, USER, SecuredKafka, unsigned_token
from tests.services.token_server import TokenServer

PARTITIONS = 4
REQUESTS_PER_SECOND = 20.0
GOOD = Mix(good=b'{"id":"ID","task":"score","query":"query ID","document":"some words"}')
CLIENT, CLIENT_SECRET, TOKEN_SECONDS = "client", "client-secret", 5.0
SESSION_SECONDS = 10
REAUTHENTICATION_SECONDS = 15
"""A connection lasts no longer, so that a refused credential shows soon; production has minutes."""
BROKER = {
    "listener.name.sasl_ssl.connections.max.reauth.ms": str(1000 * REAUTHENTICATION_SECONDS),
    "group.min.session.timeout.ms": "1000",
}
SETTINGS: dict[str, object] = {
    "kafka.session_timeout_seconds": SESSION_SECONDS,
    "kafka.heartbeat_interval_seconds": 3,
    "kafka.rebalance_timeout_seconds": 30,
    "kafka.request_timeout_seconds": 35,
    "kafka.delivery_timeout_seconds": 8,
    "commit.timeout_seconds": 2,
    "shutdown.revoke_seconds": 4,
    "shutdown.drain_seconds": 5,
}
"""What is far from its default in the drill only so that an incident shows within seconds."""
SCRAPE_SECONDS = 2
"""Also the time that a scrape may take: one that fails begins the time anew for which an alert waits."""
PATIENCE_SECONDS = 400.0
LOOK_SECONDS = 0.5


class Credentials(Enum):
    """By what the workers come to the broker."""

    PASSWORD = auto()
    """From a file, by SCRAM."""
    TOKEN = auto()
    """From an OpenID provider."""
    NONE = auto()
    """Through the proxy, on which one kind of request can fail alone."""


@dataclass(frozen=True, slots=True)
class Servers:
    """What all incidents share."""

    kafka: SecuredKafka
    redis: RedisNode
    tokens: TokenServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How an incident wants its scene. `settings`: every worker's; `thresholds`: of alerts, by name."""

    pods: int = 1
    credentials: Credentials = Credentials.PASSWORD
    settings: Mapping[str, object] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)


class Scene:
    """One incident's: its own topics, group, pods and Prometheus, on servers that outlast it."""

    def __init__(self, servers: Servers, name: str, folder: Path, setting: Setting) -> None:
        self.kafka, self.redis, self.tokens = servers.kafka, servers.redis, servers.tokens
        self.place = Place(self.kafka.bootstrap_servers, self.redis.url, name)
        """As the administrator reaches it."""
        folder.mkdir(parents=True)
        self.password_file = folder / "password"
        wanted = SETTINGS | self.place.settings | self._security(setting.credentials) | dict(setting.settings)
        self.pods = [Pod(f"worker-{number}", folder, wanted) for number in range(setting.pods)]
        self.prometheus = Prometheus(
            folder / "prometheus",
            JOB,
            {f"127.0.0.1:{pod.port}": {"namespace": NAMESPACE, "pod": pod.name} for pod in self.pods},
            shortened_rules(setting.thresholds),
            SCRAPE_SECONDS,
        )
        self._keeping: dict[Pod, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Everything runs, under load, and no alert fires; in the end it is all killed."""
        topics = self.place.topics
        wanted = (topics.requests, topics.results, topics.dead_letters)
        await create_topics(self.place.bootstrap_servers, dict.fromkeys(wanted, PARTITIONS))
        names = dict(zip(("score.requests", "score.results", "score.dead"), wanted, strict=True))
        await grant(self.place.bootstrap_servers, documented_rules(USER, names | {"scorestream": self.place.name}))
        self.password_file.write_text(PASSWORD)
        try:
            for pod in self.pods:
                self.put_up(pod)
            await self.prometheus.start()
            async with under_load(self.load(REQUESTS_PER_SECOND)):
                await self.until(self.is_calm, "all pods are ready")
                await self.until(self._is_watched, "Prometheus has seen all pods")
                yield
        finally:
            for pod in self.pods:
                await self.take_down(pod)
            await self.prometheus.kill()

    def load(self, requests_per_second: float, mix: Mix = GOOD) -> Load:
        """Round the partitions; not begun yet."""
        return Load(self.place.bootstrap_servers, self.place.topics.requests, PARTITIONS, requests_per_second, mix)

    def put_up(self, pod: Pod) -> None:
        """Run it from now on."""
        self._keeping[pod] = asyncio.create_task(pod.keep_up())

    async def take_down(self, pod: Pod) -> None:
        """SIGKILL, and it does not come back."""
        if keeping := self._keeping.pop(pod, None):
            keeping.cancel()
            await asyncio.wait((keeping,))

    async def until(
        self, holds: Callable[[], Awaitable[bool]], what: str, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Raises TimeoutError with what fires and what the pods say."""
        deadline = time.monotonic() + patience_seconds
        while not await self._held(holds):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {patience_seconds:g} s: {what}\n{await self.told()}")
            await asyncio.sleep(LOOK_SECONDS)

    async def told(self) -> str:
        """What fires, and what each pod says."""
        lines = [f"firing: {sorted({alert.name for alert in await self.prometheus.firing()})}"]
        for pod in self.pods:
            for path in ("/livez", "/readyz"):
                status, text = await pod.ask(path)
                lines.append(f"{pod.name} {path} {status} {text.strip()}")
        return "\n".join(lines)

    async def is_calm(self) -> bool:
        """Every pod is ready, and nothing fires."""
        return await self._all_ready() and not await self.prometheus.firing()

    async def fired(self, seconds: float) -> dict[str, str]:
        """Name -> severity of every alert that has fired in the last so many seconds."""
        series = await self.prometheus.query(
            f'last_over_time(ALERTS{{alertstate="firing"}}[{max(1, round(seconds))}s])'
        )
        return {labels["alertname"]: labels["severity"] for labels, _ in series}

    async def _is_watched(self) -> bool:
        """Twice, or what changes at once has nothing to change from."""
        return len(await self.prometheus.query("count_over_time(scorestream_ready[1h]) >= 2")) >= len(self.pods)

    async def _all_ready(self) -> bool:
        return all([(await pod.ask("/readyz"))[0] == 200 for pod in self.pods])

    @staticmethod
    async def _held(holds: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await holds()
        except (aiohttp.ClientError, TimeoutError):
            return False  # Prometheus did not answer in time

    def _security(self, credentials: Credentials) -> dict[str, object]:
        if credentials is Credentials.NONE:
            return {"kafka.bootstrap_servers": self.kafka.proxy.address}
        common = {
            "kafka.bootstrap_servers": self.kafka.address(SecurityProtocol.SASL_SSL),
            "kafka.security.protocol": SecurityProtocol.SASL_SSL.value,
            "kafka.security.ca_file": self.kafka.authority.ca_file,
        }
        if credentials is Credentials.TOKEN:
            return common | {
                "kafka.security.sasl_mechanism": SaslMechanism.OAUTHBEARER.value,
                "kafka.security.token_endpoint": self.tokens.endpoint,
                "kafka.security.username": CLIENT,
                "kafka.security.password": CLIENT_SECRET,
            }
        return common | {
            "kafka.security.sasl_mechanism": SaslMechanism.SCRAM_SHA_512.value,
            "kafka.security.username": USER,
            "kafka.security.password_file": self.password_file,
        }


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Servers]:
    """All of them, killed at the end."""
    kafka, redis = SecuredKafka(folder / "kafka", BROKER), RedisNode(folder / "redis")
    own = kafka.authority.sign("provider", ("localhost",))
    try:
        await asyncio.gather(kafka.start(), redis.start())
        tokens = TokenServer(CLIENT, CLIENT_SECRET, unsigned_token, TOKEN_SECONDS, own)
        async with tokens, kafka.proxy:
            yield Servers(kafka, redis, tokens)
    finally:
        await asyncio.gather(kafka.kill(), redis.kill())
