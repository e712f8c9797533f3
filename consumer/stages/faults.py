"""Our own fault in a pure stage becomes `internal` for the record at hand, and a log line for us."""

import traceback

import structlog

from consumer.errors import RecordRejected
from schemas.errors import ErrorCode

log = structlog.get_logger()


def internal(stage: str, fault: Exception) -> RecordRejected:
    """The answer to a record on which our own code failed.

    The fault's own text may quote the request, so neither the log nor the answer repeats it: only its type and where.
    """
    frames = traceback.extract_tb(fault.__traceback__)
    where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-6:]]
    log.error("internal fault", stage=stage, type=type(fault).__name__, where=where)
    return RecordRejected(ErrorCode.INTERNAL, f"the worker failed in stage {stage} ({type(fault).__name__})")
