"""Each implementation of the Kafka ports, fake and real, as one fixture."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from tests.contract.clusters import BrokerCluster, Cluster, InMemoryCluster

MakeCluster = Callable[[int], Awaitable[Cluster]]


@pytest.fixture(params=["memory", "kafka", "embedded"])
def servers(request: pytest.FixtureRequest) -> str | None:
    """Bootstrap servers of a real broker, None for the fake."""
    return None if request.param == "memory" else request.getfixturevalue(request.param).bootstrap_servers


@pytest_asyncio.fixture
async def new_cluster(servers: str | None) -> AsyncIterator[MakeCluster]:
    """`cluster = await new_cluster(partitions)`."""
    made: list[Cluster] = []

    async def make(partitions: int) -> Cluster:
        if servers is None:
            made.append(InMemoryCluster(partitions))
        else:
            cluster = BrokerCluster(servers)
            await cluster.create(partitions)
            made.append(cluster)
        return made[-1]

    yield make
    for cluster in made:
        await cluster.close()
