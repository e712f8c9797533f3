"""Access control lists of a broker with an authorizer, as an administrator gives and takes them."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest

from tests.services.process import ServiceFailed

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Broker properties: whoever has no rule about a resource may do everything with it."""

TOPIC, GROUP = 2, 3
ALL, READ, WRITE, DESCRIBE = 2, 3, 4, 8
OPERATIONS = {"Read": READ, "Write": WRITE, "Describe": DESCRIBE, "DescribeConfigs": 10, "IdempotentWrite": 12}
"""As kafka-acls.sh names them."""
PAGE = Path(__file__).parents[2] / "docs" / "secure.md"
LITERAL, _DENY, ALLOW = 3, 2, 3
_EVERYBODY, EVERYWHERE = "User:*", "*"


class Rules:
    """What may be done with one resource: everything, but for what is forbidden just now."""

    def __init__(self, bootstrap_servers: str, kind: int, name: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._resource = (kind, name, LITERAL, _EVERYBODY, EVERYWHERE)

    async def forbid(self, operation: int) -> None:
        """From now on, for everybody; everything else stays allowed."""
        rules = [(ALL, ALLOW), (operation, _DENY)]
        await grant(self._bootstrap_servers, [CreateAclsRequest(*self._resource, *rule) for rule in rules])

    async def allow(self, operation: int) -> None:
        """As it was before it was forbidden."""
        await grant(self._bootstrap_servers, [DeleteAclsRequest(*self._resource, operation, _DENY)])


def documented_rules(principal: str, names: Mapping[str, str]) -> list[CreateAclsRequest]:
    """The rules that docs/secure.md gives this principal; `names` replace those of topics and group there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--topic")
    parser.add_argument("--group")
    rules = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("    kafka-acls.sh "):
            rule = parser.parse_args(line.split()[1:])
            kind, name = (TOPIC, rule.topic) if rule.topic else (GROUP, rule.group)
            resource = (kind, names.get(name, name), LITERAL, rule.allow_principal, EVERYWHERE)
            if rule.allow_principal == f"User:{principal}":
                rules += [CreateAclsRequest(*resource, OPERATIONS[one], ALLOW) for one in rule.operation]
    if not rules:
        raise ServiceFailed(f"{PAGE} has no rule for {principal}")
    return rules


async def grant(bootstrap_servers: str, rules: Iterable[CreateAclsRequest | DeleteAclsRequest]) -> None:
    """Add, or take away, as the administrator. Raises ServiceFailed for a rule that is refused."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        for rule in rules:
            _throttle, results = (await admin._send_to_controller(rule)).to_object().values()
            if refused := [one for one in results if one["error_code"]]:
                raise ServiceFailed(f"the rule was refused: {refused}")
    finally:
        await admin.close()
