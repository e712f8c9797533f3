"""Requests: bytes to models, strictly, with errors that name the field and never repeat the input."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from schemas.errors import ErrorCode
from schemas.request import (
    REQUEST_MODELS,
    SCHEMA_VERSION,
    PluginRequest,
    RequestId,
    ScoringRequest,
    integral,
)
from schemas.wire import names
from schemas.wire.envelopes import unwrapped
from schemas.wire.exact_numbers import dump_json, exact_field, has_float
from schemas.wire.strict_json import MAX_DEPTH, NotJson, find_fault, read_object
from schemas.wire.violations import describe_violations

MAX_METADATA_BYTES = 4096
MAX_METADATA_DEPTH = 32
MAX_MESSAGE_CHARACTERS = 1000

_ID: TypeAdapter[str] = TypeAdapter(RequestId, config=ConfigDict(strict=True))


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a worker's settings allow."""

    max_items: int = 1000
    max_ttl_seconds: int = 86_400


class WireError(Exception):
    """This value is not a request that can be answered.

    `code`: malformed, schema, unsupported_version or too_many_items.
    `message`: names the field; at most 1000 characters; repeats no value of the input.
    `id`, `task`, `metadata`: the request's, where each by itself is valid. With an id the request gets an error result,
    without one only a dead letter.
    `index`: the item of the request's list at fault, if it is one item's fault.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        id: str | None = None,  # noqa: A002  the wire's name
        task: str | None = None,
        index: int | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id
        self.task = task
        self.index = index
        self.metadata = metadata


def parse_request(value: bytes | None, limits: RequestLimits) -> ScoringRequest:
    """A record's value as a request. Raises WireError."""
    if value is None:
        raise WireError(ErrorCode.MALFORMED, "the record has no value")
    try:
        tree, fault = read_object(value)
    except NotJson as error:
        raise WireError(ErrorCode.MALFORMED, str(error)) from None
    if not fault and has_float(tree.get("metadata")):
        tree["metadata"] = exact_field(value, "metadata")
    version = integral(tree.get("schema"))
    if type(version) is int and version > SCHEMA_VERSION:
        message = f"`schema` is above {SCHEMA_VERSION}, the newest version that this worker reads"
        raise _rejection(tree, ErrorCode.UNSUPPORTED_VERSION, message)
    if fault:
        raise _rejection(tree, ErrorCode.SCHEMA, fault)
    return _validate(tree, limits)


def encode_request(request: Mapping[str, Any]) -> bytes:
    """A request in its wire form (a mapping) as compact JSON, not validated. Raises TypeError for what is not JSON."""
    return dump_json(request)


def _validate(tree: dict[str, Any], limits: RequestLimits) -> ScoringRequest:
    task = _known_task(tree)
    if task is None:
        raise _rejection(tree, ErrorCode.SCHEMA, _task_problem(tree))
    misplaced = _misplaced_fields(tree, task)
    if misplaced:
        raise _rejection(tree, ErrorCode.SCHEMA, misplaced)
    _check_documents(tree, limits)
    given = {name: field for name, field in tree.items() if field is not None}
    try:
        request = REQUEST_MODELS[task].model_validate(given)
    except ValidationError as invalid:
        message, index = describe_violations(invalid)
        raise _rejection(tree, ErrorCode.SCHEMA, message, index) from None
    problem = _free_form_problem(request) or _ttl_problem(request, limits)
    if problem:
        raise _rejection(tree, ErrorCode.SCHEMA, problem)
    return request


def _check_documents(tree: dict[str, Any], limits: RequestLimits) -> None:
    """Refuse what would make the model's check, or its list of errors, long."""
    for name in ("document", "documents", "input"):
        given = tree.get(name)
        items = given if isinstance(given, list) else [given]
        if len(items) > limits.max_items:
            message = f"`{name}` has {len(items)} items, {limits.max_items} are allowed"
            raise _rejection(tree, ErrorCode.TOO_MANY_ITEMS, message)
        for index, item in enumerate(items):
            if type(item) is dict and len(item) > len(names.DOCUMENT_FIELDS):
                unknown = names.unknown_document_fields(item.keys() - names.DOCUMENT_FIELDS, item)
                if items is given:
                    raise _rejection(tree, ErrorCode.SCHEMA, f"`{name}[{index}]` has {unknown}", index)
                raise _rejection(tree, ErrorCode.SCHEMA, f"`{name}` has {unknown}")


def _task_problem(tree: dict[str, Any]) -> str:
    """What to say of an object whose task is missing, or none of the contract's."""
    if "task" not in tree or tree["task"] is None:
        problem = f"`task` is missing: it must be one of {', '.join(REQUEST_MODELS)}"
    else:
        meant = names.meant_task(tree["task"])
        problem = f"`task` must be one of {', '.join(REQUEST_MODELS)}" + (f" (write `{meant}`)" if meant else "")
    if wrapped := unwrapped(tree):
        return f"{problem}; the value is {wrapped.says}"
    unknown = tree.keys() - names.ALL_FIELDS
    return f"{problem}; {names.unknown_fields(unknown, tree, None)}" if unknown else problem


def _misplaced_fields(tree: dict[str, Any], task: str) -> str | None:
    if names.FIELDS[task].issuperset(tree):
        return None
    misplaced = tree.keys() - names.FIELDS[task]
    unknown = misplaced - names.ALL_FIELDS
    if unknown:
        return names.unknown_fields(unknown, tree, task)
    return names.foreign_fields([name for name in misplaced if tree[name] is not None], tree, task) or None


def _free_form_problem(request: ScoringRequest) -> str | None:
    problem = None
    if request.metadata is not None:
        problem = _metadata_problem(request.metadata)
    if problem is None and isinstance(request, PluginRequest):
        fault = find_fault(request.data, MAX_DEPTH, level=2)
        problem = f"`data` {fault}" if fault else None
    return problem


def _metadata_problem(metadata: dict[str, Any]) -> str | None:
    fault = find_fault(metadata, MAX_METADATA_DEPTH)
    if fault:
        return f"`metadata` {fault}"
    size_bytes = len(dump_json(metadata))
    if size_bytes > MAX_METADATA_BYTES:
        return f"`metadata` has {size_bytes} bytes serialised, {MAX_METADATA_BYTES} are allowed"
    return None


def _ttl_problem(request: ScoringRequest, limits: RequestLimits) -> str | None:
    if request.ttl_seconds is not None and request.ttl_seconds > limits.max_ttl_seconds:
        return f"`ttl_seconds` must be at most {limits.max_ttl_seconds}"
    return None


def _rejection(tree: dict[str, Any], code: ErrorCode, message: str, index: int | None = None) -> WireError:
    if _known_task(tree) is None and (wrapped := unwrapped(tree)):
        return WireError(
            code,
            message[:MAX_MESSAGE_CHARACTERS],
            id=_readable_id(wrapped.request),
            task=_known_task(wrapped.request),
        )
    metadata = tree.get("metadata")
    echoed = isinstance(metadata, dict) and _metadata_problem(metadata) is None
    return WireError(
        code,
        message[:MAX_MESSAGE_CHARACTERS],
        id=_readable_id(tree),
        task=_known_task(tree),
        index=index,
        metadata=metadata if echoed else None,
    )


def _readable_id(tree: dict[str, Any]) -> str | None:
    try:
        return _ID.validate_python(tree.get("id"))
    except ValidationError:
        return None


def _known_task(tree: dict[str, Any]) -> str | None:
    task = tree.get("task")
    return task if isinstance(task, str) and task in REQUEST_MODELS else None
