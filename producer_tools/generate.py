"""Made-up requests of a chosen size, the same for the same seed."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from schemas.wire import encode_request

_COMMON = """
time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother area
money story fact month lot right study book eye job word business issue side kind head house service friend father
power hour game line end member law car city community name president team minute idea body information back parent
face others level office door health person art war history party result change morning reason research girl guy
moment air teacher force education
"""
WORDS = _COMMON.split()
"""Common English words: one token each in the vocabularies of BERT and of the usual decoders."""


class GeneratedTask(StrEnum):
    """What the made-up requests ask for."""

    RERANK = "rerank"
    SCORE = "score"
    CLASSIFY = "classify"
    EMBED = "embed"


def generate_requests(
    task: GeneratedTask, count: int, *, items: int, words: int, seed: int, id_prefix: str
) -> Iterator[tuple[str, bytes]]:
    """(id, request) of `count` requests, each with `items` texts (rerank, classify, embed) of about `words` words.

    Lengths are spread evenly from half to one and a half times `words`.
    """
    chance = random.Random(seed)

    def text() -> str:
        length = chance.randint(max(1, words // 2), max(1, words * 3 // 2))
        return " ".join(chance.choices(WORDS, k=length))

    for number in range(count):
        request: dict[str, Any] = {"id": f"{id_prefix}{number}", "task": task.value}
        match task:
            case GeneratedTask.RERANK:
                request |= {"query": text(), "documents": [text() for _ in range(items)]}
            case GeneratedTask.SCORE:
                request |= {"query": text(), "document": text()}
            case GeneratedTask.CLASSIFY | GeneratedTask.EMBED:
                request |= {"input": [text() for _ in range(items)]}
        yield request["id"], encode_request(request)


def unique_prefix(name: str) -> str:
    """A prefix for ids that no other run has used: results of an earlier run are not taken for this one's."""
    return f"{name}-{secrets.token_hex(4)}-"
