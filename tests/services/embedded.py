"""noida-db for quick tests: one small binary that speaks the Kafka and the Redis protocol, up in a moment."""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from tests.services.kafka import check_metadata
from tests.services.process import ServerProcess, free_port
from tests.services.redis import check_ping


class EmbeddedNode(ServerProcess):
    """One noida-db process on 127.0.0.1, serving Kafka and Redis."""

    name = "noida-db"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, free_port(count=2))

    @property
    def bootstrap_servers(self) -> str:
        """host:port for Kafka clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def redis_url(self) -> str:
        """For Redis clients."""
        return f"redis://127.0.0.1:{self.port + 1}/0"

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        binary = Path(str(files("noida_db").joinpath("noida-db")))
        # The package's own starter sets it too: a wheel does not carry the permission.
        binary.chmod(0o755)
        ports = ["--kafka-port", str(self.port), "--redis-port", str(self.port + 1)]
        folder = ["--data-dir", str(self.folder / "data")]
        return [str(binary), "start", "--only", "kafka,redis", *ports, *folder], os.environ

    async def check_ready(self) -> None:
        await check_metadata(self.bootstrap_servers)
        await check_ping(self.redis_url)
