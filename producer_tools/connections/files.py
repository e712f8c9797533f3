"""Files that are replaced while a process runs: rotated certificates and passwords, as Kubernetes mounts them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_Stamp = tuple[tuple[int, int, int], ...]


class Unusable(ValueError):
    """What the settings name cannot be used, a file that is not there for instance; the message names it."""


class Renewed(Generic[_T]):
    """What was made of some files, made anew once they have changed.

    While they cannot be used, because a certificate was replaced and its key not yet, what was made before stays.
    """

    def __init__(self, paths: Iterable[Path], make: Callable[[], _T]) -> None:
        """Raises Unusable."""
        self._paths = tuple(paths)
        self._make = make
        self._stamp = _stamp(self._paths)
        self._made = make()
        self._complaint = ""

    def get(self) -> _T:
        """The present one. Never raises: that files became unusable is logged, once for each change of the reason."""
        try:
            stamp = _stamp(self._paths)
            if stamp != self._stamp:
                self._made = self._make()
                self._stamp = stamp
                log.info("read again: %s", ", ".join(map(str, self._paths)))
            self._complaint = ""
        except Unusable as unusable:
            if str(unusable) != self._complaint:
                log.warning("%s; what was read before stays in use", unusable)
            self._complaint = str(unusable)
        return self._made


def _stamp(paths: tuple[Path, ...]) -> _Stamp:
    """Changes with any of the files. Raises Unusable."""
    stamps = []
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 - called for every request: a path's own way costs twice as much
        except OSError as error:
            raise Unusable(f"{path}: {error.strerror}") from error
        stamps.append((found.st_mtime_ns, found.st_ino, found.st_size))
    return tuple(stamps)
