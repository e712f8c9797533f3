"""Engines whose process is forked from one that has imported vLLM already: 4 s of CPU for a start instead of 25.

For tests of what an engine computes. On CPU vLLM starts two processes for an engine, one after the other, and each
spends most of a start on imports; here it is one, with the model in it, as on a GPU. How a worker starts, loses and
stops its engine is for tests of engines that are spawned as the worker does it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from unittest.mock import patch

IMPORTED = ["vllm.v1.engine.core", "vllm.v1.executor.uniproc_executor", "vllm.v1.worker.cpu_worker"]
"""By the process that is forked. Nothing in them starts a thread, which a fork would lose."""
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the model in the engine's process, also on CPU
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # as the worker sets it before it imports vLLM
    "OPENBLAS_NUM_THREADS": "1",  # numpy would start them when it is imported
}


@contextmanager
def forked_engines() -> Iterator[None]:
    """Engines that start while this lasts are forked. The process to fork from starts with the first use, and stays."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with patch.dict(os.environ, ENVIRONMENT), patch.object(multiprocessing, "get_context", lambda _method: context):
        # Now, so that it imports while this process does.
        forkserver.ensure_running()
        yield
