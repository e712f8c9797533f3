"""What is ranked: the docstrings of Python's own standard library, the same real corpus on every machine."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODULES = (
    "bisect", "collections", "contextlib", "copy", "csv", "datetime", "difflib", "fnmatch", "fractions", "functools",
    "glob", "gzip", "heapq", "hmac", "itertools", "json", "pathlib", "pickle", "queue", "random", "re", "sched",
    "secrets", "selectors", "shelve", "shlex", "shutil", "socket", "statistics", "string", "subprocess", "tempfile",
    "textwrap", "threading", "timeit", "tokenize", "tarfile", "urllib.parse", "urllib.request", "uuid", "webbrowser",
    "wsgiref.util", "zipfile", "asyncio.queues", "asyncio.runners", "asyncio.tasks", "asyncio.locks", "asyncio.streams",
    "configparser", "concurrent.futures.process", "concurrent.futures.thread", "email.utils", "http.client",
    "logging.handlers", "os", "calendar", "ast", "inspect", "ipaddress", "html",
)  # fmt: skip
"""Modules that people ask about. One that this Python lacks is left out."""

MIN_CHARACTERS = 40
"""A shorter docstring names its function again and says no more."""
MAX_CHARACTERS = 240
"""What a docstring says is in its first sentences."""
MAX_PER_MODULE = 18
"""So that a large module does not crowd out the others."""

QUESTIONS = (
    "find all files in a folder that match a pattern",
    "run a command and capture what it prints",
    "remember the results of a function so that it is not computed again",
    "show the differences between two texts line by line",
    "wait for several coroutines and collect their results",
    "copy a whole directory tree",
    "the middle value of a list of numbers",
    "make a password or token that nobody can guess",
)
"""What is asked. Each is answered by a function of the standard library that does not use the question's words."""


@dataclass(frozen=True, slots=True)
class Docstring:
    """One document: `name` is the dotted name of a public function, class or method."""

    name: str
    text: str


def collect_docstrings(limit: int) -> list[Docstring]:
    """At most `limit` docstrings, in a fixed order; the modules are read, not imported."""
    library = Path(sysconfig.get_path("stdlib"))
    found: list[Docstring] = []
    for module in MODULES:
        source = _source_of(library, module)
        if source is not None:
            found += list(_docstrings(module, ast.parse(source.read_bytes())))[:MAX_PER_MODULE]
    return found[:limit]


def _source_of(library: Path, module: str) -> Path | None:
    place = library.joinpath(*module.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((one for one in candidates if one.is_file()), None)


def _docstrings(prefix: str, tree: ast.Module | ast.ClassDef) -> Iterator[Docstring]:
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        name = f"{prefix}.{node.name}"
        text = ast.get_docstring(node) or ""
        if len(text) >= MIN_CHARACTERS:
            yield Docstring(name, " ".join(text.split())[:MAX_CHARACTERS])
        if isinstance(node, ast.ClassDef):
            yield from _docstrings(name, node)
