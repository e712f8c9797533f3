"""The YAML file of settings, as the worker and the tools read it."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

CONFIG_VARIABLE = "SCORESTREAM_CONFIG"
"""Names the file in the environment."""
_BOOLEAN = "tag:yaml.org,2002:bool"


class SettingsFileInvalid(ValueError):
    """The file cannot be read; the message names it, and what is wrong with it."""


class _Loader(yaml.SafeLoader):
    """`on` and `off` are text, as in YAML 1.2: they are values of settings."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        """Refuses a name that stands twice: the second would take the place of the first, a whole section of it."""
        names: list[object] = []
        for name, _ in node.value:
            names.append(self.construct_object(name, deep=True))
            if names[-1] in names[:-1]:
                twice = f"{names[-1]} stands there a second time: put all of it in one place"
                raise yaml.constructor.ConstructorError(None, None, twice, name.start_mark)
        return super().construct_mapping(node, deep)


class FileSettings(BaseSettings):
    """Settings of the command line (init arguments), the environment, and the file that it names; in this order.

    Making them raises SettingsFileInvalid, beside what BaseSettings raises.
    """

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """See above; pydantic asks for them."""
        del dotenv_settings, file_secret_settings
        file = os.environ.get(CONFIG_VARIABLE)
        named = (InitSettingsSource(settings_cls, read_settings_file(Path(file))),) if file else ()
        return (init_settings, env_settings, *named)


def read_settings_file(file: Path) -> dict[str, Any]:
    """Its sections; without those in which nothing stands. Raises SettingsFileInvalid."""
    try:
        tree = yaml.load(file.read_text(encoding="utf-8"), _Loader)  # noqa: S506 -- a SafeLoader
    except FileNotFoundError:
        raise SettingsFileInvalid(f"{CONFIG_VARIABLE} is {file}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as unreadable:
        raise SettingsFileInvalid(f"{file} cannot be read: {unreadable}") from None
    except yaml.MarkedYAMLError as broken:
        where = f"{file}, line {broken.problem_mark.line + 1}" if broken.problem_mark else str(file)
        raise SettingsFileInvalid(f"{where}: {broken.problem}") from None
    except yaml.YAMLError as broken:
        raise SettingsFileInvalid(f"{file}: {broken}") from None
    if not isinstance(tree, dict | None):
        raise SettingsFileInvalid(f"{file} holds no sections: write them as in docs/settings.md, `kafka:` and below")
    return {name: section for name, section in (tree or {}).items() if section is not None}
