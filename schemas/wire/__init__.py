"""Bytes <-> models: the only place that reads or writes the contract's JSON."""

from schemas.wire.other_formats import named_headers
from schemas.wire.requests import RequestLimits, WireError, encode_request, parse_request
from schemas.wire.results import ModelNames, SealedResult, SourceCoordinates, parse_result, seal_result

__all__ = [
    "ModelNames",
    "RequestLimits",
    "SealedResult",
    "SourceCoordinates",
    "WireError",
    "encode_request",
    "named_headers",
    "parse_request",
    "parse_result",
    "seal_result",
]
