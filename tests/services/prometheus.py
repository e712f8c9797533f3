"""A real Prometheus for tests: what it scrapes, the rules it evaluates, and the alerts it raises."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.services.process import ServerProcess, ServiceFailed, free_port

ANSWER_SECONDS = 5.0


def prometheus() -> Path:
    """The program on the PATH. Raises ServiceFailed naming the fix."""
    found = shutil.which("prometheus")
    if found is None:
        raise ServiceFailed("there is no prometheus: install it (Debian, Ubuntu: apt install prometheus)")
    return Path(found)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert that fires now."""

    name: str
    severity: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Prometheus(ServerProcess):
    """One on 127.0.0.1 that scrapes and evaluates every `every_seconds`.

    `targets`: host:port -> the labels of its series; `rules`: as in a PrometheusRule.
    """

    name = "Prometheus"

    def __init__(
        self,
        folder: Path,
        job: str,
        targets: Mapping[str, Mapping[str, str]],
        rules: Sequence[Mapping[str, Any]],
        every_seconds: int,
    ) -> None:
        super().__init__(folder, free_port())
        self._every = f"{every_seconds}s"
        self._scraped = {
            "job_name": job,
            "static_configs": [{"targets": [address], "labels": dict(labels)} for address, labels in targets.items()],
        }
        self._rules = [dict(rule) for rule in rules]

    @property
    def url(self) -> str:
        """Of its own pages, and of its interface."""
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        group = {"name": "scorestream", "rules": self._rules}
        (self.folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [group]}, sort_keys=False))
        intervals = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), self._every)
        configuration = {"global": intervals, "rule_files": ["rules.yaml"], "scrape_configs": [self._scraped]}
        file = self.folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(configuration, sort_keys=False))
        arguments = [
            f"--config.file={file}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]
        return [str(prometheus()), *arguments], os.environ

    async def check_ready(self) -> None:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{self.url}/-/ready") as got:
            got.raise_for_status()

    async def firing(self) -> list[Alert]:
        """What fires now."""
        alerts = (await self._ask("/api/v1/alerts"))["alerts"]
        return [
            Alert(one["labels"]["alertname"], one["labels"]["severity"], one["labels"], one["annotations"])
            for one in alerts
            if one["state"] == "firing"
        ]

    async def query(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """Labels and value of each series that the expression has now."""
        result = (await self._ask("/api/v1/query", query=expression))["result"]
        return [(one["metric"], float(one["value"][1])) for one in result]

    async def _ask(self, path: str, **parameters: str) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{self.url}{path}", params=parameters) as got,
        ):
            answer: dict[str, Any] = await got.json()
        if answer["status"] != "success":
            raise ServiceFailed(f"{path} {parameters}: {answer}")
        data: dict[str, Any] = answer["data"]
        return data
