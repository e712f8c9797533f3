"""Certificates for tests: an authority, and what it signs, as PEM files."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM
_DAY = dt.timedelta(days=1)


class Authority:
    """Signs certificates; `ca_file` is what trusts them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder(self._name, self._name, self._key.public_key(), x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(certificate.public_bytes(_PEM))

    def sign(self, name: str, hosts: tuple[str, ...] = (), *, days: int = 1) -> "SignedFiles":
        """A new key and its certificate: `name` is its subject, `hosts` what it may be found under.

        Negative `days`: it ended so long ago.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        ends = dt.datetime.now(dt.UTC) + days * _DAY
        builder = (
            x509.CertificateBuilder(self._name, _name(name), key.public_key(), x509.random_serial_number())
            .not_valid_before(ends - 2 * _DAY)
            .not_valid_after(ends)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return SignedFiles(self._folder / name, key, certificate)


class SignedFiles:
    """`certificate_file`, `key_file`, and both in one: `pem_file`."""

    def __init__(self, stem: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        public = certificate.public_bytes(_PEM)
        self.certificate_file, self.key_file, self.pem_file = (
            stem.with_suffix(suffix) for suffix in (".crt", ".key", ".pem")
        )
        self.certificate_file.write_bytes(public)
        self.key_file.write_bytes(private)
        self.pem_file.write_bytes(private + public)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
