"""What an embedder wants before a query and before a document: as set, as known of a hub's model, or as its files say.

sentence-transformers looks for the prompt of a query under one name and for that of a document under three. Many models
name theirs otherwise (`search_query`, `retrieval.query`), and the vectors without them look fine. So prompts that no
role takes are refused until the settings say which role has which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from consumer.model.candidate import Candidate
from consumer.model.files import ModelFiles
from consumer.model.sentence_files import MODEL, stated_object

KNOWN_PROMPTS: Mapping[str, tuple[str, str]] = {
    f"intfloat/{name}": ("query: ", "passage: ")
    for size in ("small", "base", "large")
    for name in (f"e5-{size}", f"e5-{size}-v2", f"multilingual-e5-{size}")
}
"""Models of the Hugging Face hub whose authors ask for prompts and whose files do not state them -> of a query, of a
document: https://huggingface.co/intfloat/multilingual-e5-base. A folder of the same name is no proof."""
_QUERY, _DOCUMENT = ("query",), ("document", "passage", "corpus")
"""The names under which encode_query and encode_document look, the first that is there decides."""
_MOST_NAMED = 5
"""Prompts of a message: some models have one for each of a hundred tasks."""


class _Role(NamedTuple):
    """What the files say of it: its prompt and the name of that; `own`: it is meant for this role alone."""

    prompt: str
    name: str | None
    own: bool


def prompts_by_role(candidate: Candidate) -> tuple[str, str]:
    """The prompt of a query and that of a document. Raises SettingsInvalid where the files leave a role open."""
    files, engine = candidate.files, candidate.engine
    wanted = (engine.query_prompt, engine.document_prompt)
    if known := KNOWN_PROMPTS.get(files.model) if files.commit else None:
        query, document = known
    else:
        query, document = _stated(files, wanted)
    return query if wanted[0] is None else wanted[0], document if wanted[1] is None else wanted[1]


def _stated(files: ModelFiles, wanted: tuple[str | None, str | None]) -> tuple[str, str]:
    sentence = stated_object(files, MODEL)
    prompts = {name: "" if prompt is None else prompt for name, prompt in dict(sentence.get("prompts") or {}).items()}
    default = sentence.get("default_prompt_name")
    if wrong := [name for name, prompt in prompts.items() if not isinstance(prompt, str)]:
        raise files.refuse(f"{MODEL} has the prompt {wrong[0]} {prompts[wrong[0]]!r}, which is no text")
    if default is not None and default not in (*prompts, *_QUERY, *_DOCUMENT):
        raise files.refuse(f"{MODEL} says default_prompt_name {default!r}, and has no prompt of that name")
    roles = [_role(prompts, names, default) for names in (_QUERY, _DOCUMENT)]
    taken = {role.name for role in roles}
    settled = [role.own or setting is not None for role, setting in zip(roles, wanted, strict=True)]
    # Where each role has its own, the rest are for other tasks; where one is for all texts, there must be no others.
    others = [name for name, prompt in prompts.items() if prompt and name not in taken]
    if not all(settled) and (others or (default in (*_QUERY, *_DOCUMENT) and prompts.get(default))):
        open_roles = [name for name, is_settled in zip(("query", "document"), settled, strict=True) if not is_settled]
        raise files.refuse(_problem(prompts, open_roles))
    return roles[0].prompt, roles[1].prompt


def _role(prompts: Mapping[str, str], names: Sequence[str], default: str | None) -> _Role:
    """As sentence-transformers finds it: the role's own, also where that is empty, else the one for all texts."""
    name = next((name for name in names if name in prompts), None)
    if name is not None:
        return _Role(prompts[name], name, own=bool(prompts[name]))
    return _Role("" if default is None else prompts.get(default, ""), default, own=False)


def _problem(prompts: Mapping[str, Any], open_roles: Sequence[str]) -> str:
    stated = [f"{name} {prompt!r}" for name, prompt in prompts.items() if prompt]
    more = f" and {len(stated) - _MOST_NAMED} more" if len(stated) > _MOST_NAMED else ""
    settings = " and ".join(f"engine.{role}_prompt" for role in open_roles)
    return (
        f"{MODEL} has the prompts {', '.join(stated[:_MOST_NAMED])}{more}, and does not say which of them is for a "
        f"{' or a '.join(open_roles)}: set {settings}, to '' for none"
    )
