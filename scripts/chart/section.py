"""What all groups of values share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Object = dict[str, Any]
"""What Kubernetes itself defines: passed on as it is."""
Objects = list[dict[str, Any]]
Labels = dict[str, str]
Percentage = Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")]


class Section(BaseModel):
    """A group of values; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, alias_generator=to_camel)
