"""Where test models are kept: in folders named after the hash of their recipe, complete or not there at all.

So a changed recipe never meets an old model.
"""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from scripts.cache import cache_folder, only_one


def built(name: str, recipe: bytes, build: Callable[[Path], None]) -> Path:
    """The folder that `build` fills; built when the cache folder does not have it. `recipe`: all it depends on."""
    models = cache_folder() / "models"
    models.mkdir(exist_ok=True)
    target = models / f"{name}-{hashlib.sha256(recipe).hexdigest()[:12]}"
    with only_one(models / "build.lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=models) as work:
                folder = Path(work) / name
                folder.mkdir()
                build(folder)
                folder.rename(target)
    return target
