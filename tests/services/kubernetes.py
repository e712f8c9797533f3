"""A real Kubernetes API server on a real etcd, as plain processes: everything but nodes and controllers."""

import asyncio
import http
import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from scripts.go_build import CUSTOM_RESOURCES, custom_resource_file, program
from tests.services.process import ServerProcess, free_port, wait_until

PLURALS = {"NetworkPolicy": "networkpolicies"}
"""Of kinds whose plural is not the kind and an s."""


class Etcd(ServerProcess):
    """The API server's store."""

    name = "etcd"

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.port + 1}"
        arguments = [f"--data-dir={self.folder / 'data'}", f"--listen-client-urls={client}"]
        arguments += [f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
        arguments += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
        # Nothing here must outlive a power failure.
        return [str(program("etcd")), "--unsafe-no-fsync", "--log-level=warn", *arguments], {}

    async def check_ready(self) -> None:
        await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{self.port}/health", timeout=5)


class ApiServer(ServerProcess):
    """The API server; `kubeconfig` names an administrator."""

    name = "kube-apiserver"

    def __init__(self, folder: Path, port: int, etcd: Etcd) -> None:
        super().__init__(folder, port)
        self.kubeconfig = folder / "kubeconfig"
        self._etcd = etcd
        self._token = secrets.token_hex(16)
        # Its certificate is its own, made at its start.
        self._tls = ssl._create_unverified_context()

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        key, tokens = self.folder / "service-accounts.key", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], capture_output=True, check=True)
        tokens.write_text(f'{self._token},admin,admin,"system:masters"\n')
        self.kubeconfig.write_text(yaml.safe_dump(self._access()))
        arguments = [f"--etcd-servers=http://127.0.0.1:{self._etcd.port}", "--bind-address=127.0.0.1"]
        arguments += [f"--secure-port={self.port}", f"--cert-dir={self.folder / 'certificates'}"]
        arguments += ["--service-account-issuer=https://kubernetes.default", f"--service-account-key-file={key}"]
        arguments += [f"--service-account-signing-key-file={key}", f"--token-auth-file={tokens}"]
        arguments += ["--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24"]
        return [str(program("kube-apiserver")), *arguments], {"HOME": str(self.folder)}

    async def check_ready(self) -> None:
        await asyncio.to_thread(self.ask, "GET", "/readyz")

    async def teach(self) -> None:
        """Make the custom resources of KEDA and the Prometheus operator known, and wait until they are."""
        for name in CUSTOM_RESOURCES:
            text = await asyncio.to_thread(custom_resource_file(name).read_text)
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await asyncio.to_thread(self.ask, "POST", definitions, text)
            spec = yaml.safe_load(text)["spec"]
            listed = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{name}"
            await wait_until(partial(self.knows, listed), f"{listed} is served")

    def knows(self, path: str) -> bool:
        """Whether there is something at this path."""
        try:
            return self.ask("GET", path) is not None
        except urllib.error.HTTPError as refused:
            # So it answers while it prepares the store of a resource that is new.
            if refused.code != http.HTTPStatus.TOO_MANY_REQUESTS:
                raise
            return False

    def find(self, thing: dict[str, Any], namespace: str) -> dict[str, Any] | None:
        """The object of the same kind and name that is stored; None when there is none."""
        version, kind = thing["apiVersion"], thing["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural = PLURALS.get(kind, f"{kind.lower()}s")
        found: dict[str, Any] | None = self.ask(
            "GET", f"{root}/namespaces/{namespace}/{plural}/{thing['metadata']['name']}"
        )
        return found

    def ask(self, method: str, path: str, body: str | None = None) -> Any:
        """The answer's JSON, or text; None when there is no such thing. Raises HTTPError."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/yaml"}
        url = f"https://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, body.encode() if body else None, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as refused:
            if refused.code == http.HTTPStatus.NOT_FOUND:
                return None
            raise
        return json.loads(text) if text.startswith("{") else text

    def _access(self) -> dict[str, Any]:
        cluster = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }


class ControlPlane:
    """Both, on ports of their own."""

    def __init__(self, folder: Path) -> None:
        self._etcd = Etcd(folder / "etcd", free_port(2))
        self.api = ApiServer(folder / "api", free_port(), self._etcd)

    async def start(self) -> None:
        """Until the custom resources are known. Raises ServiceFailed."""
        await self._etcd.start()
        await self.api.start()
        await self.api.teach()

    async def stop(self) -> None:
        """The API server first."""
        await self.api.stop()
        await self._etcd.stop()
