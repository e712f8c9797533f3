"""A worker of a deployment whose health is asked for while its surroundings fail."""

from dataclasses import dataclass

from producer_tools.verify.audit import Audit
from tests.integration.cases.case import Case
from tests.services.probe import Answer, Probe
from tests.services.process import free_port
from tests.services.worker import WorkerProcess


@dataclass(frozen=True)
class Watched:
    """A running worker, and what it says of itself."""

    case: Case
    worker: WorkerProcess
    probe: Probe

    async def until_unready(self, *parts: str) -> None:
        """The worker says all of these, and that it lives."""

        def told(answer: Answer) -> bool:
            return answer.status == 503 and all(part in answer.text for part in parts)

        await self.probe.until("/readyz", told, f"unready with {parts}")
        assert (await self.probe.ask("/livez")).status == 200

    async def until_well(self) -> Audit:
        """Ready, and everything is answered, in order, and committed."""
        await self.case.until_all_committed()
        await self.probe.until_ready()
        return await self.case.verified()


async def watched(case: Case) -> Watched:
    """The deployment's worker, started."""
    port = free_port()
    worker = await case.started(settings={"health.host": "127.0.0.1", "health.port": port})
    return Watched(case, worker, Probe(port))
