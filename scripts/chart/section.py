"""What all groups of values share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Object = dict[str, Any]
"""What Kubernetes itself defines: passed on as it is."""
Objects = list[dict[str, Any]]
Labels = dict[str, str]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")]
KubernetesLabels = dict[str, LabelValue]
Name = Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$")]
"""Of an object; empty where there is a default."""
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")]
HttpUrl = Annotated[str, Field(pattern=r"^(https?://\S+)?$")]
Percentage = Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")]


class Section(BaseModel):
    """A group of values; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, alias_generator=to_camel)
