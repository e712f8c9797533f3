"""The tools' commands: arguments only. What they need is imported when they run, so that `--help` answers at once."""
# ruff: noqa: PLC0415, FBT002, PLR0917, ARG001 - typer reads options from the parameters of these functions

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from producer_tools import options
from producer_tools.cli_measure import bench, task_named, tune
from producer_tools.console import ExitCode, Mismatch, bad_parameter, run_tool, say, stdout_console, write_lines

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def publish(
    file: Annotated[Path | None, typer.Argument(help="JSON lines, one request each; - or nothing: stdin.")] = None,
    bootstrap_servers: options.BootstrapServers = options.BOOTSTRAP_SERVERS,
    request_topic: options.RequestTopic = options.REQUEST_TOPIC,
    key_field: Annotated[
        str, typer.Option(help='Field whose value is the Kafka key, as "metadata.user"; "": no key.')
    ] = "id",
    partition: Annotated[int | None, typer.Option(min=0, help="Instead of the key's partition.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A Kafka header; may be repeated.")
    ] = None,
    validate: Annotated[bool, typer.Option(help="Check each request before it is sent.")] = True,
    generate: Annotated[int | None, typer.Option(min=1, help="Make up so many requests instead of reading.")] = None,
    task: Annotated[str, typer.Option(help="With --generate: rerank, score, classify or embed.")] = "rerank",
    items: Annotated[int, typer.Option(min=1, help="With --generate: texts per request.")] = 10,
    words: Annotated[int, typer.Option(min=1, help="With --generate: mean words per text.")] = 40,
    seed: Annotated[int, typer.Option(help="With --generate: the same seed makes the same texts.")] = 0,
    config: options.Config = None,
) -> None:
    """Publish requests; prints each id once Kafka has acknowledged it."""
    from producer_tools import publish as tool
    from producer_tools.generate import generate_requests, unique_prefix

    kind = task_named(task)
    try:
        headers = tool.parse_headers(header or [])
    except ValueError as refused:
        raise bad_parameter(refused) from None
    if generate is not None and file is not None:
        raise typer.BadParameter("give a FILE or --generate, not both")
    to = tool.Destination(options.brokers(bootstrap_servers), request_topic, partition, headers)
    if generate is not None:
        made = generate_requests(kind, generate, items=items, words=words, seed=seed, id_prefix=unique_prefix("made"))
        run_tool(tool.publish(tool.made_up(made), to))
        return
    with _open(file) as source:
        requests = tool.validated(source, key_field) if validate else tool.unchecked(source)
        run_tool(tool.publish(requests, to))


@app.command()
def get(
    id: Annotated[str, typer.Argument(help="The request's id.", show_default=False)],  # noqa: A002 - the wire's name
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a result that is not there yet.")] = False,
    timeout: options.Timeout = 30.0,
    source: Annotated[str, typer.Option(help="redis, or topic: reads the whole results topic.")] = "redis",
    redis_url: options.RedisUrl = options.REDIS_URL,
    prefix: options.RedisPrefix = options.REDIS_PREFIX,
    bootstrap_servers: options.BootstrapServers = options.BOOTSTRAP_SERVERS,
    result_topic: options.ResultTopic = options.RESULT_TOPIC,
    config: options.Config = None,
) -> None:
    """Print one result: a page on a terminal, its bytes otherwise. Exit code 1 when there is none."""
    from producer_tools import get as tool

    wait_seconds = timeout if wait else 0.0
    match source:
        case "redis":
            finding = tool.get_from_redis(
                id, server=options.redis_server(redis_url), prefix=prefix, wait_seconds=wait_seconds
            )
        case "topic":
            finding = tool.get_from_topic(
                id, brokers=options.brokers(bootstrap_servers), topic=result_topic, wait_seconds=wait_seconds
            )
        case _:
            raise typer.BadParameter(f"{source}: give redis or topic", param_hint="--source")

    async def show() -> None:
        tool.show(await finding, id)

    run_tool(show())


@app.command()
def watch(
    bootstrap_servers: options.BootstrapServers = options.BOOTSTRAP_SERVERS,
    result_topic: options.ResultTopic = options.RESULT_TOPIC,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Also what is there already.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only requests or items that failed.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Follow the results, one line each, until Ctrl-C."""
    from producer_tools import watch as tool

    work = tool.watch(
        brokers=options.brokers(bootstrap_servers),
        topic=result_topic,
        start_at=tool.StartAt.BEGINNING if from_beginning else tool.StartAt.END,
        selection=tool.Selection.FAILED if failed else tool.Selection.ALL,
        count=count,
        show=tool.as_json if as_json else tool.as_line(),
    )
    run_tool(work, interrupted=ExitCode.OK)


@app.command()
def verify(
    bootstrap_servers: options.BootstrapServers = options.BOOTSTRAP_SERVERS,
    request_topic: options.RequestTopic = options.REQUEST_TOPIC,
    result_topic: options.ResultTopic = options.RESULT_TOPIC,
    dead_letter_topic: options.DeadLetterTopic = options.DEAD_LETTER_TOPIC,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for answers that are still to come.")] = False,
    timeout: options.Timeout = 60.0,
    max_duplicates: Annotated[int | None, typer.Option(min=0, help="More duplicates are a mismatch.")] = None,
    redis: Annotated[bool, typer.Option("--redis", help="Also compare what Redis holds.")] = False,
    redis_url: options.RedisUrl = options.REDIS_URL,
    prefix: options.RedisPrefix = options.REDIS_PREFIX,
    ttl_seconds: options.TtlSeconds = options.TTL_SECONDS,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Check from outside that all requests were answered.

    Once each, and in order. Exit code 3 when not.
    """
    from producer_tools.verify import audit as tool
    from producer_tools.verify import report
    from producer_tools.verify.cache import Cache

    topics = tool.Topics(request_topic, result_topic, dead_letter_topic)
    brokers = options.brokers(bootstrap_servers)
    cache = Cache(options.redis_server(redis_url), prefix, ttl_seconds) if redis else None

    async def judge() -> None:
        done = await tool.audit(brokers, topics, wait_seconds=timeout if wait else 0.0, cache=cache, note=say)
        if as_json:
            write_lines(json.dumps(report.as_json(done, max_duplicates)).encode())
        else:
            stdout_console().print(report.as_table(done, max_duplicates))
        if not report.kept(done, max_duplicates):
            raise Mismatch

    run_tool(judge())


@app.command()
def replay(
    bootstrap_servers: options.BootstrapServers = options.BOOTSTRAP_SERVERS,
    dead_letter_topic: options.DeadLetterTopic = options.DEAD_LETTER_TOPIC,
    request_topic: options.RequestTopic = options.REQUEST_TOPIC,
    code: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Only this error code; may be repeated.")
    ] = None,
    id: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this request; may be repeated.")] = None,  # noqa: A002
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show them and send nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Their results override newer ones in Redis.")] = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Send dead letters to the request topic again.

    Each once, as it was.
    """
    from producer_tools import replay as tool

    brokers = options.brokers(bootstrap_servers)
    selected = tool.Filter(frozenset(code or ()), frozenset(id or ()))

    def show(one: tool.Replay) -> None:
        told = {"source": str(one.source), "code": one.code, "id": one.id}
        write_lines(json.dumps(told).encode() if as_json else "\t".join(told.values()).encode())

    async def only_show() -> None:
        async for one in tool.selected_dead_letters(brokers, dead_letter_topic, selected):
            show(one)

    run_tool(
        only_show()
        if dry_run
        else tool.replay(
            brokers=brokers,
            dead_letter_topic=dead_letter_topic,
            request_topic=request_topic,
            selected=selected,
            force=force,
            show=show,
        )
    )


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
) -> None:
    """Score real work on this machine alone, and verify it.

    Starts a broker, a cache and a worker, and stops them.
    """
    from producer_tools.demo.run import demo as show

    run_tool(show(stdout_console(), keep=keep))


app.command()(bench)
app.command()(tune)


def _open(file: Path | None) -> BinaryIO:
    if file is None or str(file) == "-":
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as unreadable:
        raise typer.BadParameter(f"{file}: {unreadable.strerror}") from None
