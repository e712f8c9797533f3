"""A broker that wants to know who comes: TLS, every SASL mechanism, client certificates, access control lists."""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path

from producer_tools.connections.kafka import Brokers
from producer_tools.connections.settings import KafkaSecurity, SaslMechanism, SecurityProtocol
from scripts.kafka import environment, prepare
from tests.services.certificates import Authority
from tests.services.kafka import KafkaNode
from tests.services.kafka_proxy import KafkaProxy
from tests.services.process import free_port

USER, PASSWORD = "worker", "worker-secret"
OTHER_USERS = ("publisher", "reader", "auditor")
"""They have the same password, and come by PLAIN."""
_SASL = "org.apache.kafka.common.security"
_OWN_LISTENERS = 2
LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")


class SecuredKafka(KafkaNode):
    """Beside the open listener, which is the administrator's, one for each protocol that asks for something.

    It knows one user by password and by token, others by PLAIN, and whoever has a certificate of `authority`. Its own
    certificate is for the name localhost alone. What is not allowed by a rule is forbidden. Who comes through `proxy`,
    which somebody has to run, is the administrator, too.
    """

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.port = free_port(count=_OWN_LISTENERS + len(LISTENERS) + 2)
        self._proxied_port = self.port + _OWN_LISTENERS + len(LISTENERS)
        self.proxy = KafkaProxy(self._proxied_port + 1, self._proxied_port)
        self.authority = Authority(folder / "certificates")
        self.properties = self._security() | dict(properties or {})

    def address(self, protocol: SecurityProtocol, host: str = "localhost") -> str:
        """host:port of the listener that speaks it."""
        if protocol is SecurityProtocol.PLAINTEXT:
            return self.bootstrap_servers
        return f"{host}:{self.port + _OWN_LISTENERS + LISTENERS.index(protocol.value)}"

    def brokers(self, mechanism: SaslMechanism, **more: object) -> Brokers:
        """As the user, by TLS and that mechanism."""
        security = {
            "protocol": SecurityProtocol.SASL_SSL,
            "ca_file": self.authority.ca_file,
            "sasl_mechanism": mechanism,
            "username": USER,
            "password": PASSWORD,
        }
        wanted = KafkaSecurity.model_validate({**security, **more})
        return Brokers(self.address(wanted.protocol), wanted)

    async def set_password(self, mechanism: SaslMechanism, password: str) -> None:
        """Of the user, for one of the SCRAM mechanisms. Raises ServiceFailed."""
        user = ("--entity-type", "users", "--entity-name", USER)
        await self.run_tool("kafka-configs.sh", "--alter", *user, "--add-config", f"{mechanism}=[password={password}]")

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        data = self.folder / "data"
        scram = [f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
        return prepare(data, self.port, self.properties, scram), environment(data)

    def _security(self) -> dict[str, str]:
        own = self.authority.sign("broker", ("localhost",))
        ports = dict(zip(LISTENERS, range(self.port + _OWN_LISTENERS, self.port + 9), strict=False))
        also = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
        advertised = [f"{name}://localhost:{port}" for name, port in ports.items()]
        also.append(f"PROXIED://127.0.0.1:{self._proxied_port}")
        advertised.append(f"PROXIED://{self.proxy.address}")
        names = ["PLAINTEXT", *LISTENERS]
        return {
            "listeners": ",".join(
                [f"PLAINTEXT://127.0.0.1:{self.port}", f"CONTROLLER://127.0.0.1:{self.port + 1}", *also]
            ),
            "advertised.listeners": ",".join([f"PLAINTEXT://127.0.0.1:{self.port}", *advertised]),
            "listener.security.protocol.map": ",".join(
                [f"{name}:{name}" for name in names] + ["CONTROLLER:PLAINTEXT", "PROXIED:PLAINTEXT"]
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own.pem_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca_file),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "sasl.enabled.mechanisms": ",".join(SaslMechanism),
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            **{key: value for name in LISTENERS[:2] for key, value in _jaas(f"listener.name.{name.lower()}").items()},
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }


def _jaas(listener: str) -> dict[str, str]:
    by_password = " ".join(f'user_{name}="{PASSWORD}"' for name in (USER, *OTHER_USERS))
    scram = f"{_SASL}.scram.ScramLoginModule required;"
    return {
        f"{listener}.plain.sasl.jaas.config": f"{_SASL}.plain.PlainLoginModule required {by_password};",
        f"{listener}.scram-sha-256.sasl.jaas.config": scram,
        f"{listener}.scram-sha-512.sasl.jaas.config": scram,
        # Kafka's own validator for tests: a token needs no signature, but has to be in time.
        f"{listener}.oauthbearer.sasl.jaas.config": (
            f'{_SASL}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
    }


def unsigned_token(subject: str = USER, lifetime_seconds: float = 3600.0) -> tuple[str, float]:
    """What the broker takes, and its end in milliseconds since the epoch."""
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + lifetime_seconds}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)
    ]
    return ".".join([*parts, ""]), 1000 * (now + lifetime_seconds)
