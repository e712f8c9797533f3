"""Logs: structlog to stderr, pretty on a terminal, one JSON object a line elsewhere. Never a request's text."""

import logging
import os
import sys
from typing import TextIO

import structlog

from consumer.repetition import RepetitionFilter
from producer_tools.terminal import visible

WORKER_VARIABLE = "SCORESTREAM_WORKER_INDEX"
"""Set by a supervisor for each of its workers; every line of the worker's log has it as `worker`."""


def configure(stream: TextIO = sys.stderr) -> None:
    """Route structlog's and every library's log through one handler. Call once, first."""
    # vLLM configures logging of its own in every process it starts; what it says below a warning is for its developers.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if worker := os.environ.get(WORKER_VARIABLE):
        shared.append(_bound(worker=int(worker)))
    renderer: structlog.typing.Processor
    shown: list[structlog.typing.Processor] = [structlog.processors.format_exc_info]
    if stream.isatty():
        shown.append(_visible)
        renderer = structlog.dev.ConsoleRenderer(colors="NO_COLOR" not in os.environ)
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *shown,
                renderer,
            ],
        )
    )
    handler.addFilter(RepetitionFilter("aiokafka"))
    handler.addFilter(RepetitionFilter("consumer.adapters.http_server"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # aiokafka tells every metadata refresh and heartbeat hiccup; what matters the worker says itself.
    logging.getLogger("aiokafka").setLevel(logging.WARNING)


def _visible(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Brokers' and servers' words on a terminal; what is no text is shown by repr, which escapes."""
    return {name: visible(value, "\n\t") if isinstance(value, str) else value for name, value in event.items()}


def _bound(**fields: object) -> structlog.typing.Processor:
    def bind(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**event, **fields}

    return bind
