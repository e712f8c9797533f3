"""The one console script, `scorestream`. Arguments only; everything heavy is imported by the command that needs it.

Exit codes: 0 ok, 1 failure, 2 usage or settings, 3 verify mismatch.
"""
# ruff: noqa: FBT002, PLR0917 - typer reads options from the parameters of these functions

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from producer_tools.cli import app as tools
from producer_tools.console import say

if TYPE_CHECKING:
    from consumer.engine_alone import Load
    from consumer.settings import Settings

app = typer.Typer(
    name="scorestream",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its help page costs a third of a second at every start
)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="YAML file of settings.", exists=True, dir_okay=False, envvar="SCORESTREAM_CONFIG"),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="One setting, as in --set kafka.group_id=ranking; above environment and file.",
    ),
]
Model = Annotated[str | None, typer.Option("--model", help="Short for --set engine.model=...")]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap-servers", help="Short for --set kafka.bootstrap_servers=")]
RedisUrl = Annotated[str | None, typer.Option("--redis-url", help="Short for --set redis.url=...")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, also of settings that are refused.")]
_INSTALL = "this command needs the worker's own packages: install scorestream[cpu] or scorestream[cuda]"


def _print_version(asked: bool) -> None:  # noqa: FBT001 -- typer's way
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 -- heavy

        typer.echo(f"scorestream {version('scorestream')}")
        raise typer.Exit


@app.callback()
def scorestream(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Streaming scoring with vLLM: requests in from Kafka, scores out to Kafka and Redis."""
    del version


@app.command()
def run(
    config: ConfigFile = None,
    override: Overrides = None,
    model: Model = None,
    bootstrap_servers: Bootstrap = None,
    redis_url: RedisUrl = None,
    *,
    workers: Annotated[int | None, typer.Option(help="Short for --set workers.count=...")] = None,
    mps: Annotated[str | None, typer.Option(help="Short for --set workers.mps=...: off, or on.")] = None,
) -> None:
    """Run a worker, or several, until SIGTERM or Ctrl-C.

    These drain it; a second one quits at once.
    """
    overrides = _overrides(override, model, bootstrap_servers, redis_url)
    shorts = {"workers.count": workers, "workers.mps": mps}
    overrides |= {path: value for path, value in shorts.items() if value is not None}
    with _failing_clearly():
        settings = _load(config, overrides)
        settings.engine.require_model()
    if settings.workers.count > 1:
        from consumer.supervisor.main import main as supervise  # noqa: PLC0415 -- heavy

        raise typer.Exit(supervise(settings, overrides))
    with _needs_the_engine():
        from consumer.worker import main as run_worker  # noqa: PLC0415 -- heavy

    raise typer.Exit(run_worker(settings))


@app.command()
def check(
    config: ConfigFile = None,
    override: Overrides = None,
    model: Model = None,
    bootstrap_servers: Bootstrap = None,
    redis_url: RedisUrl = None,
    as_json: Json = False,
) -> None:
    """Find out what would keep a worker from starting.

    Each finding is ok, WARN (a worker starts, and logs it) or FAIL (none starts, and the exit code is 2), with its fix.
    """
    from consumer import finding  # noqa: PLC0415 -- heavy

    with (_failing_in_json if as_json else _failing_clearly)():
        settings = _settings(config, override, model, bootstrap_servers, redis_url)
        from consumer.check import main as check_worker  # noqa: PLC0415 -- heavy

    raise typer.Exit(check_worker(settings, finding.as_json if as_json else finding.as_lines))


@app.command()
def config(
    config: ConfigFile = None,
    override: Overrides = None,
    model: Model = None,
    bootstrap_servers: Bootstrap = None,
    redis_url: RedisUrl = None,
    as_json: Json = False,
) -> None:
    """Print the settings in force as YAML, or as JSON; secrets masked."""
    import yaml  # noqa: PLC0415 -- heavy

    from consumer.startup.surroundings import check_environment, check_files  # noqa: PLC0415 -- heavy

    with (_failing_in_json if as_json else _failing_clearly)():
        settings = _settings(config, override, model, bootstrap_servers, redis_url)
    # Not refused: the files may be there where the worker is.
    for finding in (*check_files(settings), *check_environment(os.environ)):
        say(f"warning: {finding}")
    shown = settings.model_dump(mode="json")
    sys.stdout.write(json.dumps(shown, indent=2) + "\n" if as_json else yaml.safe_dump(shown, sort_keys=False))


@app.command()
def schema(
    message: Annotated[str, typer.Argument(help="request, result, or asyncapi.")] = "request",
) -> None:
    """Print the wire contract: a JSON Schema, or the AsyncAPI document."""
    from schemas.export import documents  # noqa: PLC0415 -- heavy

    known = {Path(name).name.split(".")[0]: text for name, text in documents().items()}
    if message not in known:
        raise typer.BadParameter(f"one of {', '.join(sorted(known))}")
    sys.stdout.write(known[message])


Requests = Annotated[
    list[Path], typer.Argument(help="JSONL files of requests.", exists=True, dir_okay=False, metavar="FILES")
]


@app.command(hidden=True)
def ceiling(
    requests: Requests,
    engines: Annotated[
        list[int] | None,
        typer.Option(
            min=1, metavar="N", help="Engines at once, each a process; they share the requests. May be repeated."
        ),
    ] = None,
    lone: Annotated[bool, typer.Option("--one-at-a-time", help="Latency of AsyncLLM instead of LLM's rate.")] = False,
    config: ConfigFile = None,
    override: Overrides = None,
    model: Model = None,
) -> None:
    """Measure the engine alone, on these requests' own token ids; prints one JSON object per file."""
    with _needs_the_engine():
        from consumer.engine_alone import as_fast_as_it_goes, one_at_a_time  # noqa: PLC0415 -- heavy

    if lone and engines:
        raise typer.BadParameter("one engine answers one request at a time: leave it out", param_hint="--engines")
    load = one_at_a_time if lone else as_fast_as_it_goes
    with _failing_clearly():
        _measure(_settings(config, override, model, None, None), requests, load, engines or [1])


@app.command(hidden=True)
def baseline(
    requests: Requests,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences of one padded batch.")] = 32,
    config: ConfigFile = None,
    override: Overrides = None,
    model: Model = None,
) -> None:
    """Measure transformers, on these requests' own token ids; prints one JSON object per file."""
    from functools import partial  # noqa: PLC0415

    with _needs_the_engine():
        from consumer.engine_alone import padded_batches  # noqa: PLC0415 -- heavy

    with _failing_clearly():
        _measure(_settings(config, override, model, None, None), requests, partial(padded_batches, batch_size), [1])


@app.command(hidden=True)
def tokens(requests: Requests, config: ConfigFile = None, override: Overrides = None, model: Model = None) -> None:
    """Count the tokens that each request gives the engine; prints one JSON object per request."""
    with _failing_clearly():
        settings = _settings(config, override, model, None, None)
        from consumer.engine_alone import count_tokens  # noqa: PLC0415 -- heavy

        count_tokens(settings, requests, sys.stdout)


def _measure(settings: Settings, files: list[Path], load: Load, engines: list[int]) -> None:
    from consumer.engine_alone import measure  # noqa: PLC0415 -- heavy

    measure(settings, files, load, engines, sys.stdout)


@contextmanager
def _failing_clearly() -> Iterator[None]:
    from consumer.errors import EngineDead, SettingsInvalid  # noqa: PLC0415 -- heavy

    with _needs_the_engine():
        try:
            yield
        except SettingsInvalid as invalid:
            say(f"settings: {invalid}")
            raise typer.Exit(2) from None
        except EngineDead as dead:
            say(f"error: {dead}")
            raise typer.Exit(1) from None


@contextmanager
def _failing_in_json() -> Iterator[None]:
    from consumer.errors import SettingsInvalid  # noqa: PLC0415 -- heavy
    from consumer.finding import Finding, Refused, as_json  # noqa: PLC0415 -- heavy

    try:
        yield
    except Refused as refused:
        findings = refused.findings
    except SettingsInvalid as invalid:
        findings = [Finding("settings", ok=False, found=str(invalid))]
    except ModuleNotFoundError as missing:
        findings = [Finding("packages", ok=False, found=str(missing), fix=_INSTALL)]
    else:
        return
    sys.stdout.write(as_json(findings))
    raise typer.Exit(2)


def _settings(
    config: Path | None, override: list[str] | None, model: str | None, bootstrap: str | None, redis_url: str | None
) -> Settings:
    """Raises SettingsInvalid."""
    return _load(config, _overrides(override, model, bootstrap, redis_url))


def _overrides(
    override: list[str] | None, model: str | None, bootstrap: str | None, redis_url: str | None
) -> dict[str, Any]:
    """The command line's settings, by their dotted paths."""
    overrides: dict[str, Any] = {}
    for one in override or ():
        path, equals, value = one.partition("=")
        if not equals:
            # What it is instead is not repeated: it may be a secret.
            raise typer.BadParameter("write PATH=VALUE, as in --set kafka.group_id=ranking", param_hint="--set")
        overrides[path] = _value(path, value)
    shorts = {"engine.model": model, "kafka.bootstrap_servers": bootstrap, "redis.url": redis_url}
    return overrides | {path: value for path, value in shorts.items() if value is not None}


def _load(config: Path | None, overrides: dict[str, Any]) -> Settings:
    """Raises SettingsInvalid."""
    from consumer.settings import load_settings  # noqa: PLC0415 -- heavy

    if config is not None:
        os.environ["SCORESTREAM_CONFIG"] = str(config)
    return load_settings(overrides)


@contextmanager
def _needs_the_engine() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        say(f"{missing}: {_INSTALL}")
        raise typer.Exit(2) from None


def _value(path: str, text: str) -> Any:
    """Lists, objects and everything below engine.args are JSON; the rest is text that the setting's type reads."""
    if not path.startswith("engine.args.") and text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


# The tools' commands stand beside the worker's: publish, get, watch, verify, replay, bench, demo.
app.registered_commands.extend(tools.registered_commands)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
