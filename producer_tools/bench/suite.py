"""What the bench is asked for: deployments, and what to measure of each; from options or from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from producer_tools.bench.mixes import NAMED
from producer_tools.bench.targets import Target
from producer_tools.console import ToolFailure


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


CUSTOM = "words"
"""The mix that is described by options."""
MixName = Annotated[str, Field(pattern=f"^({'|'.join([*NAMED, CUSTOM])})$")]


class Deployment(_Part):
    """Workers or engines with certain settings."""

    name: str
    settings: dict[str, Any] = {}
    """Dotted paths, as for `--set`, above those of the suite."""
    workers: PositiveInt = 1
    """Of the pipeline; `scorestream run --workers`."""
    engines: list[PositiveInt] | None = None
    """Engines alone, one measurement of each number; default: as many as workers. They start once: the first goes on
    running beside those that are added."""
    mps: bool = False
    """Whether processes on one GPU share it through CUDA MPS: engines alone, and workers if they are several."""
    measure: list[Literal["pipeline", "engine", "one_at_a_time"]] = ["engine", "pipeline"]
    """What to measure. `one_at_a_time`: latency when nothing else is under way; of the engine alone if it is measured,
    too."""
    mixes: list[MixName] | None = None
    """Default: the suite's."""

    @property
    def engine_counts(self) -> list[int]:
        """How many engines alone to measure."""
        return sorted(set(self.engines or [self.workers]))


class Transformers(_Part):
    """The baseline: transformers in padded batches."""

    batch_size: PositiveInt = 32
    mixes: list[MixName] | None = None
    """Default: the suite's."""
    requests: PositiveInt = 2000
    """Of one mix, at most: it is slow, and its rate shows soon."""


class Suite(_Part):
    """Everything that one run measures, in this order."""

    settings: dict[str, Any] = {}
    """Dotted paths of all deployments; over the environment's SCORESTREAM_... ."""
    mixes: list[MixName] = ["short", "mid", "long"]
    requests: PositiveInt | dict[MixName, PositiveInt] = 2000
    """Measured requests of one mix."""
    warmup: Annotated[int, Field(ge=0)] = 200
    """Requests before these; of a mix with fewer, no more than those."""
    one_at_a_time_requests: PositiveInt = 100
    """Measured requests of `one_at_a_time`, on the first mix."""
    concurrency: PositiveInt = 512
    """Requests under way at once (closed loop)."""
    rate: PositiveFloat | None = None
    """Requests/s (open loop) instead of `concurrency`."""
    backlog: Annotated[int, Field(ge=0)] = 0
    """Requests published before the worker starts; then the first of their results are measured."""
    seed: int = 0
    """The same seed makes the same texts."""
    transformers: Transformers | None = None
    """After the first deployment; none: it is not measured."""
    minutes: PositiveFloat | None = None
    """Nothing new begins after so long; what was left out is in the report."""
    deployments: Annotated[list[Deployment], Field(min_length=1)]
    targets: list[Target] = []
    """What the figures should come to; the report says which of them they did, and a miss is exit code 3."""

    @model_validator(mode="after")
    def check_backlog(self) -> Self:
        """There must be something left to measure behind the warm-up."""
        if 0 < self.backlog <= self.warmup:
            raise ValueError(f"backlog is {self.backlog}: set it above warmup ({self.warmup})")
        return self

    @model_validator(mode="after")
    def check_names(self) -> Self:
        """Each deployment has a name of its own, and targets name those that are there."""
        names = [one.name for one in self.deployments]
        if len(set(names)) < len(names):
            raise ValueError(f"deployments are named {', '.join(names)}: give each a name of its own")
        for target in self.targets:
            for named in (target.deployment, target.beside):
                if named is not None and named not in names:
                    raise ValueError(f"a target names the deployment {named}: there are {', '.join(names)}")
        return self

    def requests_of(self, mix: str) -> int:
        """How many requests of a mix are measured."""
        return self.requests if isinstance(self.requests, int) else self.requests.get(mix, 2000)

    def warmup_of(self, mix: str) -> int:
        """How many requests of a mix come before these."""
        return min(self.warmup, self.requests_of(mix))


def read_suite(file: Path, settings: Mapping[str, Any] = MappingProxyType({}), minutes: float | None = None) -> Suite:
    """The suite of a YAML file; `settings` come over its own, and so do `minutes`.

    Raises ToolFailure, one line per problem.
    """
    try:
        suite = Suite.model_validate(yaml.safe_load(file.read_text()))
        return suite.model_copy(
            update={"settings": suite.settings | dict(settings), "minutes": minutes or suite.minutes}
        )
    except (OSError, yaml.YAMLError) as unreadable:
        raise ToolFailure(f"{file}: {unreadable}") from None
    except ValidationError as invalid:
        raise ToolFailure("\n".join([f"{file}:", *problems(invalid)])) from None


def problems(invalid: ValidationError) -> list[str]:
    """One line for each."""
    return [
        f"{'.'.join(map(str, one['loc'])) or 'suite'}: {one['msg'].removeprefix('Value error, ')}"
        for one in invalid.errors(include_url=False)
    ]
