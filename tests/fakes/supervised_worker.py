"""A worker as its supervisor sees it, without Kafka and engine: it gets warm, joins, answers probes and drains.

Its arguments: JOURNAL LIVES run --set ... LIVES is JSON: worker -> what it does in each of its lives, the last for
ever. A life is `run`, or one of the words in `LIVES`. Each step is a line of the file JOURNAL.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from consumer.logs import WORKER_VARIABLE
from consumer.supervisor.link import supervision

INDEX = os.environ[WORKER_VARIABLE]
JOURNAL = Path(sys.argv[1])
LIVES = {
    "refuse": "ends with 2 before it is warm",
    "fail": "raises before it is warm",
    "fade": "ends with 4 when it is warm",
    "die": "ends with 3 once it has joined, and leaves a process behind",
    "deaf": "runs, and /livez says that it is not live",
    "slow": "is never warm",
}


def note(step: str) -> None:
    with JOURNAL.open("a") as journal:
        journal.write(json.dumps({"worker": int(INDEX), "step": step, "pid": os.getpid()}) + "\n")


def life() -> str:
    before = [json.loads(line) for line in JOURNAL.read_text().splitlines()] if JOURNAL.exists() else []
    number = sum(one["worker"] == int(INDEX) and one["step"] == "started" for one in before)
    lives = json.loads(sys.argv[2]).get(INDEX, ["run"])
    return str(lives[min(number, len(lives) - 1)])


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, now: str) -> None:
    path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
    good = now != "deaf" or path != b"/livez"
    body = b"ok\n" if good else b"loop_lags: the event loop is 11.0 s late\n"
    head = f"HTTP/1.1 {200 if good else 503} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    writer.close()


async def work(now: str) -> int:
    drain = asyncio.Event()
    async with supervision() as supervisor:
        supervisor.on_stop(lambda: os._exit(1))
        if now == "refuse":
            return 2
        if now == "fail":
            raise RuntimeError("no memory left on the device")
        if now == "slow":
            await asyncio.sleep(3600)
        note("warm")
        if now == "fade":
            return 4
        await supervisor.turn_to_join()
        supervisor.on_stop(drain.set)
        note("joined")
        if now == "die":
            left = subprocess.Popen(["sleep", "3600"])  # noqa: ASYNC220 -- it does nothing else any more
            note(f"left {left.pid}")
            os._exit(3)
        [path] = [one.partition("=")[2] for one in sys.argv if one.startswith("health.unix_socket=")]
        async with await asyncio.start_unix_server(lambda *streams: answer(*streams, now), path):
            await drain.wait()
    note("drained")
    return 0


if __name__ == "__main__":
    this_life = life()
    note("started")
    sys.exit(asyncio.run(work(this_life)))
