"""Write requirements.lock: `python3 -m scripts.lock`. For every Python and platform that vLLM for CPU supports.

No address of an index stands in it: where packages come from is the machine's own matter.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from scripts.setup import LOCK, PYTHON_FROM, REPOSITORY, TORCH_OVERRIDE
from scripts.uv import find_uv

HEAD = (
    "# The versions that `make` installs with vLLM for CPU, and that the tests ran with. "
    "Written by `make lock`; do not edit.\n"
)
GROUPS = ("dev", "java", "redis-server")
EXTRAS = ("cpu", "demo")


def main() -> None:
    """Raises CalledProcessError; uv has then said why."""
    with tempfile.TemporaryDirectory() as work:
        override, written = Path(work) / "override.txt", Path(work) / "requirements.txt"
        override.write_text(TORCH_OVERRIDE)
        command = [find_uv(), "pip", "compile", "pyproject.toml", "--quiet", "--universal", "--upgrade"]
        command += ["--python-version", ".".join(map(str, PYTHON_FROM)), "--override", str(override)]
        command += ["--no-emit-index-url", "--no-header", "--no-annotate", "--output-file", str(written)]
        command += [f"--extra={extra}" for extra in EXTRAS] + [f"--group={group}" for group in GROUPS]
        subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
        LOCK.write_text(HEAD + written.read_text())


if __name__ == "__main__":
    main()
