"""What docs/deploy.md shows is accepted by the chart."""

import re

import pytest
import yaml

from scripts.chart.schema import CHART
from tests.chart.rendering import render

PAGE = (CHART.parent.parent / "docs" / "deploy.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_example_is_all_that_is_needed() -> None:
    assert render(values=yaml.safe_load(EXAMPLES[0]))


@pytest.mark.parametrize("example", EXAMPLES[1:], ids=lambda text: text.splitlines()[0])
def test_an_example_is_accepted_beside_the_first(example: str) -> None:
    assert render(CHART / "ci" / "minimal-values.yaml", values=yaml.safe_load(example))
