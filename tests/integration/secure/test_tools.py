"""Worker and tools where everything is secured, each with no other right than the documentation gives it."""

import asyncio
import os
import sys
from collections.abc import Mapping

import pytest
import yaml

from producer_tools.connections.kafka import Brokers
from producer_tools.connections.settings import KafkaSecurity, SecurityProtocol
from tests.integration.cases.case import Case, request
from tests.integration.secure.conftest import MakeSecuredCase
from tests.services.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.services.secured_redis import SecuredRedis, documented_user

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

TOOL = [sys.executable, "-c", "from producer_tools.cli import app; app(prog_name='scorestream')"]


class Tools:
    """The command line of one user: a file of settings as the worker has, and secrets in the environment."""

    def __init__(self, case: Case, kafka: SecuredKafka, redis: SecuredRedis, user: str) -> None:
        topics = case.place.topics
        settings = {
            "kafka": {
                "bootstrap_servers": kafka.address(SecurityProtocol.SASL_SSL),
                "security": {
                    "protocol": "SASL_SSL",
                    "ca_file": str(kafka.authority.ca_file),
                    "sasl_mechanism": "PLAIN",
                    "username": "somebody",
                },
                "request_topic": topics.requests,
                "result_topic": topics.results,
                "dead_letter_topic": topics.dead_letters,
            },
            "redis": {
                "url": redis.url,
                "prefix": f"{case.place.name}:",
                "security": {"ca_file": str(redis.authority.ca_file), "username": "reader"},
            },
            "engine": {"model": "what the tools do not look at"},
        }
        file = case.folder / f"{user}.yaml"
        file.write_text(yaml.safe_dump(settings))
        self.environment: Mapping[str, str] = os.environ | {
            "SCORESTREAM_CONFIG": str(file),
            "SCORESTREAM_KAFKA__SECURITY__USERNAME": user,
            "SCORESTREAM_KAFKA__SECURITY__PASSWORD": PASSWORD,
            "SCORESTREAM_REDIS__SECURITY__PASSWORD": "reader-secret",
        }

    async def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str]:
        """Exit code, and what was printed."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *TOOL, *arguments, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=self.environment
        )
        async with asyncio.timeout(60):
            output, _ = await process.communicate(stdin)
        assert process.returncode is not None
        return process.returncode, output.decode()


async def test_everything_works_with_the_documented_rights_and_no_tool_can_do_another_s_work(
    secured_kafka: SecuredKafka, secured_redis: SecuredRedis, make_secured_case: MakeSecuredCase
) -> None:
    """The worker comes to Kafka by its certificate, the tools by passwords."""
    own = secured_kafka.authority.sign(USER)
    security = KafkaSecurity(
        protocol=SecurityProtocol.SSL,
        ca_file=secured_kafka.authority.ca_file,
        certificate_file=own.certificate_file,
        key_file=own.key_file,
    )
    by_certificate = Brokers(secured_kafka.address(SecurityProtocol.SSL), security)
    redis_settings: dict[str, object] = {
        "redis.url": secured_redis.url,
        "redis.security.ca_file": secured_redis.authority.ca_file,
        "redis.security.username": "worker",
        "redis.security.password": "worker-secret",
    }
    case = await make_secured_case(by_certificate, redis_settings)
    for name in ("worker", "reader"):
        await secured_redis.administer(*documented_user(name, f"{case.place.name}:", f"{name}-secret"))
    worker = await case.started()
    publisher, reader, auditor = (
        Tools(case, secured_kafka, secured_redis, user) for user in ("publisher", "reader", "auditor")
    )
    values = [request(f"id-{number}") for number in range(8)]
    code, published = await publisher.run("publish", stdin=b"\n".join([*values, b""]))
    assert code == 0, published
    code, result = await reader.run("get", "id-7", "--wait")
    assert code == 0, result
    assert '"id":"id-7"' in result
    code, results = await reader.run("watch", "--from-beginning", "--count", "8", "--json")
    assert (code, results.count('"status":"ok"')) == (0, 8), results
    code, report = await auditor.run("verify", "--redis", "--wait", "--json")
    assert code == 0, report

    for tools, arguments in ((reader, ["publish", "--generate", "1"]), (publisher, ["watch", "--from-beginning"])):
        code, refusal = await tools.run(*arguments)
        assert code == 1, refusal
    tools = Tools(case, secured_kafka, secured_redis, "publisher")
    tools.environment = {**tools.environment, "SCORESTREAM_KAFKA__SECURITY__PASSWORD": "wrong"}
    code, refusal = await tools.run("publish", "--generate", "1")
    assert code == 1
    assert "refuses the user publisher by PLAIN" in refusal
    assert await worker.stop() == 0
