"""Write docs/settings.md from the settings model, or with --check fail when it differs."""

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from consumer.settings import Settings

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
HEAD = """# Settings

Generated from `consumer/sections.py` by `make docs`; do not edit.

Precedence: command line (`--set kafka.group_id=ranking`) > environment (`SCORESTREAM_KAFKA__GROUP_ID`) > YAML file
(`--config FILE` or `SCORESTREAM_CONFIG`) > defaults. `scorestream config` prints what is in force (`--json`: as JSON).

A list is written `a,b` or `["a","b"]` everywhere, in YAML also as a list of its own. Below `engine.args` the
environment and the command line have JSON where it is JSON: `true`, `4`, `[1,2]`. In the file sections are nested:
`kafka: {group_id: ranking}`, not `kafka.group_id: ranking`. Text that looks like a number or a date needs quotes.

A value that can never work is refused by name, with the fix and exit code 2, by every command that reads it. A file
that is named and cannot be read fails `scorestream check` and a start; `scorestream config` only warns of it on stderr,
because it may run where the files are not. A name in the environment that begins with `SCORESTREAM_` and is no setting
is refused where one setting can be meant, and else a warning (of `check`, `config` and the worker's log).
"""
TABLE_HEAD = "| setting | default | meaning |\n| --- | --- | --- |\n"


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for section, field in Settings.model_fields.items():
        model = field.annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        parts.append(f"\n## {section}\n\n{(model.__doc__ or '').strip()}\n\n{TABLE_HEAD}")
        parts += _rows(section, model)
    return "".join(parts)


def _rows(path: str, model: type[BaseModel]) -> Iterator[str]:
    """One row per setting, those of a section inside the section included."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(f"{path}.{name}", field.annotation)
        else:
            default = _shown(field.get_default(call_default_factory=True))
            meaning = " ".join((field.description or "").split())
            yield f"| `{path}.{name}` | {default} | {meaning} |\n"


def _shown(default: object) -> str:
    if isinstance(default, SecretStr):
        default = default.get_secret_value()
    if isinstance(default, Enum):
        default = default.value
    if default is PydanticUndefined:
        return "required"
    if default is None or default in ("", (), {}):
        return "none"
    return f"`{default}`"


def main() -> int:
    """0 when the page is as generated."""
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text() != text:
            print(f"{PAGE.name} is not what the settings say: run `make docs`", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
