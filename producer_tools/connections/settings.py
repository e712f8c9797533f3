"""What is known of a server and shown to it. The worker's settings hold these sections, the tools read them alike."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from producer_tools.connections.values import Impossible, TextList, WebAddress


class SecurityProtocol(StrEnum):
    """Kafka's security.protocol: whether connections are encrypted, and whether SASL says who the client is."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        """Whether the client has to say who it is, by SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class SaslMechanism(StrEnum):
    """Kafka's sasl.mechanism."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class Section(BaseModel):
    """Of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def empty_is_left_out(cls, given: Any) -> Any:
        """YAML has such sections where all below is a comment."""
        return {} if given is None else given


class _Security(Section):
    @model_validator(mode="before")
    @classmethod
    def empty_is_unset(cls, given: Any) -> Any:
        """An environment has such variables where what they were made of is not set."""
        if not isinstance(given, dict):
            return given
        optional = {name for name, field in cls.model_fields.items() if field.default is None}
        return {name: value for name, value in given.items() if value != "" or name not in optional}


class KafkaSecurity(_Security):
    """Encryption and credentials of every connection to the brokers."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL: what the brokers' listener speaks."""
    ca_file: Path | None = None
    """PEM file of the authorities that the brokers' certificates are checked against; default: the system's."""
    certificate_file: Path | None = None
    """PEM file of this client's certificate and its chain, for brokers that ask for one (mTLS)."""
    key_file: Path | None = None
    """PEM file of the certificate's key; default: it stands in `certificate_file`."""
    key_password: SecretStr | None = None
    """Of an encrypted key."""
    check_hostname: bool = True
    """Whether a broker's certificate must name the host that was connected to. Without, any certificate of the
    authorities passes."""
    sasl_mechanism: SaslMechanism | None = None
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    username: str | None = None
    """Of PLAIN and SCRAM; with `token_endpoint` the client id."""
    password: SecretStr | None = None
    """Of PLAIN and SCRAM; with `token_endpoint` the client secret."""
    password_file: Path | None = None
    """File that holds the password, read again when it changes; instead of `password`."""
    token_endpoint: WebAddress | None = None
    """OAUTHBEARER: URL where an OpenID provider gives tokens for client credentials."""
    token_scope: str | None = None
    """OAUTHBEARER: the scope asked for there."""
    token_provider: str | None = None
    """OAUTHBEARER: function that gives a token, as `module:function`, or the name of an installed entry point of the
    group `scorestream.token_providers`; instead of `token_endpoint`."""
    sasl_extensions: TextList = ()
    """OAUTHBEARER: what the brokers want to know beside the token, as `logicalCluster=lkc-1,identityPoolId=pool-1`."""

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuse what would not be used, and what cannot work; every message names the fix."""
        _check_files(self)
        if not self.protocol.encrypted and (self.ca_file or self.certificate_file):
            raise Impossible(
                f"protocol is {self.protocol}, which does not encrypt, so ca_file and certificate_file are not used",
                "set protocol to SSL or SASL_SSL, or leave them out",
            )
        if not self.protocol.uses_sasl:
            if given := [name for name in ("sasl_mechanism", "username", *_SECRETS) if getattr(self, name)]:
                raise Impossible(
                    f"protocol is {self.protocol}, which has no SASL, so {', '.join(given)} would not be used",
                    "set protocol to SASL_SSL (or SASL_PLAINTEXT), or leave them out",
                )
            return self
        if self.sasl_mechanism is None:
            raise Impossible(
                f"protocol is {self.protocol} and sasl_mechanism is not set", f"set it to {', '.join(SaslMechanism)}"
            )
        self._check_credentials(self.sasl_mechanism)
        return self

    def _check_credentials(self, mechanism: SaslMechanism) -> None:
        tokens = mechanism is SaslMechanism.OAUTHBEARER
        if tokens and (self.token_provider is None) == (self.token_endpoint is None):
            raise Impossible("sasl_mechanism is OAUTHBEARER", "set either token_endpoint or token_provider")
        if not tokens and (self.token_provider or self.token_endpoint or self.sasl_extensions):
            raise Impossible(
                f"sasl_mechanism is {mechanism}, so token_endpoint, token_provider and sasl_extensions are not used",
                "set it to OAUTHBEARER, or leave them out",
            )
        if any("=" not in extension for extension in self.sasl_extensions):
            raise Impossible("sasl_extensions has one without =", "write NAME=VALUE, separated by commas")
        if self.token_provider is None and (self.username is None or not (self.password or self.password_file)):
            raise Impossible(
                f"sasl_mechanism is {mechanism}",
                "set username, and either password_file or password"
                + (", the client's id and secret" if tokens else ""),
            )


class RedisSecurity(_Security):
    """Encryption and credentials of every connection to Redis, beside what stands in the URL (rediss:// encrypts)."""

    ca_file: Path | None = None
    """PEM file of the authorities that the server's certificate is checked against; default: the system's."""
    certificate_file: Path | None = None
    """PEM file of this client's certificate and its chain, for servers that ask for one."""
    key_file: Path | None = None
    """PEM file of the certificate's key; default: it stands in `certificate_file`."""
    key_password: SecretStr | None = None
    """Of an encrypted key."""
    check_hostname: bool = True
    """Whether the server's certificate must name the host that was connected to."""
    username: str | None = None
    """The ACL user; instead of one in the URL."""
    password: SecretStr | None = None
    """Instead of one in the URL."""
    password_file: Path | None = None
    """File that holds the password, read again when it changes; instead of `password`."""

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuse what cannot work; every message names the fix."""
        _check_files(self)
        if self.username and not (self.password or self.password_file):
            raise Impossible("username is set and no password", "set password_file or password")
        return self


_SECRETS = ("password", "password_file", "token_endpoint", "token_provider", "sasl_extensions")


def _check_files(section: KafkaSecurity | RedisSecurity) -> None:
    if section.key_file and not section.certificate_file:
        raise Impossible("key_file is set and certificate_file is not", "set both, or neither")
    if section.key_password and not section.certificate_file:
        raise Impossible("key_password is set and certificate_file is not", "set certificate_file, or leave it out")
    if section.password and section.password_file:
        raise Impossible("password and password_file are both set", "leave one out")
