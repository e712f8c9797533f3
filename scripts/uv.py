"""Find uv, or get it without root: from the PATH, from PyPI by pip, or from uv's own release page.

Runs on any Python 3.8 or newer.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

from scripts.cache import cache_folder, only_one

MINIMUM_VERSION = (0, 8)
"""The first with everything that setup passes to it (--group, --torch-backend)."""
RELEASES = "https://github.com/astral-sh/uv/releases/latest/download"
FIX = (
    "cannot get uv, which makes the environment. Any one of these helps: install uv yourself "
    "(https://docs.astral.sh/uv/getting-started/installation/), or give python3 its pip "
    "(Debian, Ubuntu: apt install python3-venv), or open the network to the package index"
)


def uv_version(uv: Path | str) -> tuple[int, ...] | None:
    """What `uv --version` says, None when this is no working uv."""
    try:
        answer = subprocess.run([str(uv), "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"uv (\d+)\.(\d+)", answer.stdout)
    return (int(found.group(1)), int(found.group(2))) if found else None


def find_uv() -> str:
    """A working uv of at least MINIMUM_VERSION; installs one into the cache folder if there is none.

    Raises RuntimeError naming the fix.
    """
    private = cache_folder() / "bin" / "uv"
    for candidate in (shutil.which("uv"), private):
        if candidate and (uv_version(candidate) or (0,)) >= MINIMUM_VERSION:
            return str(candidate)
    with only_one(cache_folder() / "uv.lock"), tempfile.TemporaryDirectory(dir=cache_folder()) as work:
        reasons = []
        for get in (uv_by_pip, uv_by_release):
            try:
                binary = get(Path(work))
            except (OSError, RuntimeError, subprocess.SubprocessError, tarfile.TarError) as failed:
                reasons.append(f"{get.__name__.replace('_', ' ')}: {failed}")
                continue
            private.parent.mkdir(exist_ok=True)
            binary.replace(private)
            print(f"setup: uv {'.'.join(map(str, uv_version(private) or ()))} is in {private}", flush=True)
            return str(private)
    raise RuntimeError("\n  ".join([FIX, *reasons]))


def uv_by_pip(work: Path) -> Path:
    """Install uv with python3's own pip, or with the pip of a fresh virtual environment, into `work`."""
    python = sys.executable
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        made = subprocess.run([python, "-m", "venv", str(work / "venv")], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise RuntimeError("python3 has neither pip nor ensurepip")
        python = str(work / "venv" / "bin" / "python")
    # --target is nobody's environment, so pip allows it on an externally managed Python too.
    command = [python, "-m", "pip", "install", "--quiet", "--no-input", "--target", str(work / "uv"), "uv"]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        raise RuntimeError((installed.stderr.strip().splitlines() or ["pip failed"])[-1])
    return work / "uv" / "bin" / "uv"


def uv_by_release(work: Path, releases: str = RELEASES) -> Path:
    """Download uv's release archive, compare it with the SHA-256 published beside it, take the binary out."""
    name = f"uv-{platform.machine()}-unknown-linux-{'musl' if is_musl() else 'gnu'}"
    archive = work / "uv.tar.gz"
    with urllib.request.urlopen(f"{releases}/{name}.tar.gz.sha256", timeout=30) as answer:
        expected = answer.read().decode().split()[0]
    with urllib.request.urlopen(f"{releases}/{name}.tar.gz", timeout=30) as answer, archive.open("wb") as file:
        shutil.copyfileobj(answer, file)
    actual = hashlib.sha256(archive.read_bytes()).hexdigest()
    if actual != expected:
        raise RuntimeError(f"{name}.tar.gz has SHA-256 {actual}, published is {expected}")
    with tarfile.open(archive) as packed:
        binary = packed.extractfile(f"{name}/uv")
        if binary is None:
            raise RuntimeError(f"{name}.tar.gz holds no uv")
        target = work / "uv-binary"
        target.write_bytes(binary.read())
    target.chmod(0o755)
    return target


def is_musl() -> bool:
    """Whether this Linux has musl instead of glibc."""
    return platform.libc_ver()[0] != "glibc"
