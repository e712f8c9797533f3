"""Access control lists of a broker with an authorizer, as an administrator gives and takes them."""

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
_LITERAL, _DENY, _ALLOW = 3, 2, 3
_EVERYBODY, _EVERYWHERE = "User:*", "*"


class Rules:
    """What may be done with one resource: everything, but for what is forbidden just now."""

    def __init__(self, bootstrap_servers: str, kind: int, name: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._resource = (kind, name, _LITERAL, _EVERYBODY, _EVERYWHERE)

    async def forbid(self, operation: int) -> None:
        """From now on, for everybody; everything else stays allowed."""
        await self._send(CreateAclsRequest(*self._resource, ALL, _ALLOW))
        await self._send(CreateAclsRequest(*self._resource, operation, _DENY))

    async def allow(self, operation: int) -> None:
        """As it was before it was forbidden."""
        await self._send(DeleteAclsRequest(*self._resource, operation, _DENY))

    async def _send(self, request: CreateAclsRequest | DeleteAclsRequest) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap_servers)
        await admin.start()
        try:
            answer = await admin._send_to_controller(request)
        finally:
            await admin.close()
        for _throttle, results in [answer.to_object().values()]:
            for result in results:
                if result["error_code"]:
                    raise ServiceFailed(f"the rule was refused: {result}")
