"""What the tools may import."""

import subprocess
import sys

HEAVY = ["torch", "vllm", "transformers", "tokenizers", "numpy", "consumer"]


def loaded(code: str) -> set[str]:
    """Top-level modules that are loaded after `code`."""
    printed = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], check=True, capture_output=True, text=True
    )
    return {name.split(".")[0] for name in printed.stdout.split()}


def test_the_commands_are_known_without_loading_what_they_need() -> None:
    assert not loaded("import producer_tools.cli") & {"aiokafka", "redis", "pydantic", "orjson", "rich", *HEAVY}


def test_no_tool_needs_the_worker_or_its_engine() -> None:
    modules = "producer_tools.bench.run, producer_tools.tune.run, producer_tools.demo.run, producer_tools.publish"
    more = "producer_tools.replay, producer_tools.get, producer_tools.watch, producer_tools.verify.report"
    assert not loaded(f"import {modules}, {more}") & set(HEAVY)
