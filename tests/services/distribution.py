"""A package of nothing but entry points, as a folder to put on a path."""

from collections.abc import Mapping
from pathlib import Path


def write_distribution(folder: Path, name: str, group: str, points: Mapping[str, str], code: str = "") -> None:
    """Installed as `name` 1.0; `points`: entry point -> module:attribute; `code`: the module of the package's name."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]", *(f"{point} = {target}" for point, target in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / f"{name}.py").write_text(code)
