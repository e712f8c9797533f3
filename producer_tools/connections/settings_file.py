"""The YAML file of settings, as the worker and the tools read it."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, PydanticBaseSettingsSource

from producer_tools.connections.problems import nested, open_names, shown_name

CONFIG_VARIABLE = "SCORESTREAM_CONFIG"
"""Names the file in the environment."""
_BOOLEAN = "tag:yaml.org,2002:bool"
_QUOTES = "has a meaning in YAML where a value begins: write the value in quotes"
_CLOSE = "a quote or a bracket is not closed, or a comma is missing"
_INDENT = "its indentation is that of no line above"
_WORDS = {
    "found character '\\t'": "a tab: indent with spaces",
    "found character": "a character that no value can begin with: write the value in quotes",
    "mapping values are not allowed": "a second `:` in one line, or an indentation that does not fit the line above",
    "expected <block end>": _INDENT,
    "found a tab character": "a tab: indent with spaces",
    "found unexpected end of stream": _CLOSE,
    "found unexpected document": _CLOSE,
    "expected ',' or": _CLOSE,
    "did not find expected": _CLOSE,
    "expected the node content": "a value is missing, or a bracket is not closed",
    "could not find expected ':'": "a name without `:` behind it",
    "but found another document": "a second document begins: put all in one",
    "expected a single document": "a second document begins: put all in one",
    "found undefined alias": f"* {_QUOTES}",
    "second occurrence": f"& {_QUOTES}",
    "could not determine a constructor": f"! {_QUOTES}",
    "expected alphabetic or numeric": f"* or & {_QUOTES}",
    "expected chomping": f"| or > {_QUOTES}",
    "found unknown escape": "a \\ in \"...\" has a meaning in YAML: write \\\\, or '...' around the value",
    "found undefined tag handle": f"! {_QUOTES}",
    "expected '!'": f"! {_QUOTES}",
}
"""PyYAML's problems, by how they begin, in words for people."""


class SettingsFileInvalid(ValueError):
    """The file cannot be read; the message names it, and what is wrong with it."""


class _Twice(yaml.constructor.ConstructorError):
    """A name stands twice in one section."""


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
                raise _Twice(None, None, twice, name.start_mark)
        return super().construct_mapping(node, deep)


class _Environment(EnvSettingsSource):
    """Where no model says what a value is, as below engine.args, it is JSON where it can be: a number, true, a list."""

    def __call__(self) -> dict[str, Any]:
        """The values, by section."""
        tree = super().__call__()
        for name in open_names(self.settings_cls):
            *sections, last = name.split(".")
            branch: Any = tree
            for section in sections:
                branch = branch.get(section, {}) if isinstance(branch, dict) else {}
            if isinstance(branch, dict) and last in branch:
                branch[last] = _json_where_it_is(branch[last])
        return tree


def _json_where_it_is(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json_where_it_is(below) for name, below in value.items()}
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


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
        del env_settings, dotenv_settings, file_secret_settings
        file = os.environ.get(CONFIG_VARIABLE)
        named = (InitSettingsSource(settings_cls, read_settings_file(Path(file))),) if file else ()
        return (init_settings, _Environment(settings_cls), *named)


def read_settings_file(file: Path) -> dict[str, Any]:
    """Its sections; without those in which nothing stands. Raises SettingsFileInvalid, with no secret in it."""
    text = _text(file)
    try:
        tree = yaml.load(text, _Loader)  # noqa: S506 -- a SafeLoader
    except yaml.MarkedYAMLError as broken:
        # What is not closed is found out at the end of the file.
        at_the_end = "end of stream" in (broken.problem or "") or "<stream end>" in (broken.problem or "")
        mark = broken.context_mark if at_the_end else broken.problem_mark
        where = f"{file}, line {mark.line + 1}" if mark else str(file)
        raise SettingsFileInvalid(f"{where}: {_words(broken)}") from None
    except yaml.reader.ReaderError as broken:
        line = text.count("\n", 0, broken.position) + 1
        raise SettingsFileInvalid(f"{file}, line {line}: a control character, U+{broken.character:04X}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as broken:
        # Their own words may be a piece of a value: a date that there is not.
        deep = isinstance(broken, RecursionError)
        fix = "it is nested too deep" if deep else "a date or a number in it is none: write it in quotes"
        raise SettingsFileInvalid(f"{file}: {fix}") from None
    if not isinstance(tree, dict | None):
        raise SettingsFileInvalid(f"{file} holds no sections: write them as in docs/settings.md, `kafka:` and below")
    for name in tree or {}:
        _check_section_name(name, file)
    return {name: section for name, section in (tree or {}).items() if section is not None}


def _text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise SettingsFileInvalid(f"{CONFIG_VARIABLE} is {file}: there is no such file") from None
    except OSError as unreadable:
        raise SettingsFileInvalid(f"{file} cannot be read: {unreadable.strerror}") from None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        raise SettingsFileInvalid(f"{file} is UTF-16, or no text: save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = content.count(b"\n", 0, broken.start) + 1
        raise SettingsFileInvalid(f"{file}, line {line} is not UTF-8: save it as UTF-8") from None


def _check_section_name(name: object, file: Path) -> None:
    if not isinstance(name, str):
        raise SettingsFileInvalid(
            f"{file}: {name} is no section: write them as in docs/settings.md, `kafka:` and below"
        )
    shown = shown_name(name)
    if "." in shown:
        raise SettingsFileInvalid(f"{file}: {shown} is one name with a dot in it: nest it, as `{nested(shown)}`")


def _words(broken: yaml.MarkedYAMLError) -> str:
    """What is wrong, without the value in which it is: that may be a password."""
    problem = broken.problem or ""
    if isinstance(broken, _Twice):
        return problem
    for begins, words in _WORDS.items():
        if problem.startswith(begins):
            return words
    if isinstance(broken, yaml.constructor.ConstructorError | yaml.composer.ComposerError):
        return "it is not understood: write it as in docs/settings.md"
    return f"{problem}: write it as in docs/settings.md"
