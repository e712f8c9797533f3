"""An outage, short; `python -m tests.chaos outage` lasts as long as you like, and takes the broker away too."""

from pathlib import Path

import pytest

from tests.chaos.outage import Server, suffer

pytestmark = [pytest.mark.kafka, pytest.mark.redis]


async def test_results_flow_again_after_an_outage_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    """Within a minute, complete, in order, in Redis; the workers that were there stay, and do not grow meanwhile."""
    outage = await suffer(tmp_path, Server.REDIS, seconds=8, requests_per_second=100, tell=print)
    assert not outage.wrong, (str(outage), outage.wrong)
