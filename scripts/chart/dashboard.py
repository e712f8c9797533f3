"""The Grafana dashboard: what to look at, from the promise down to the parts."""

from __future__ import annotations

import json
from typing import Any

S = 'namespace=~"$namespace",job=~"$job"'
"""Selects the targets that the variables at the top choose; `All` is `.*`, which a target without a namespace fits."""
WORKER, ITS_NAME = "pod, instance", "{{pod}} {{instance}}"
"""What tells workers apart: the pod in Kubernetes, the address everywhere."""
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8

Query = tuple[str, str]
"""PromQL and the legend of its series."""
Panel = tuple[str, str, str, list[Query]]
"""Title, unit as Grafana calls it, what it tells, queries."""


def _quantiles(name: str, by: str = "") -> list[Query]:
    grouping, legend = (f"le, {by}", f"{{{{{by}}}}} ") if by else ("le", "")
    buckets = f"sum by ({grouping}) (rate(scorestream_{name}_bucket{{{S}}}[$__rate_interval]))"
    shares = (0.99,) if by else (0.5, 0.99)
    return [(f"histogram_quantile({share}, {buckets})", f"{legend}p{round(100 * share)}") for share in shares]


def _rate(name: str, by: str) -> Query:
    legend = ITS_NAME if by == WORKER else f"{{{{{by}}}}}"
    return f"sum by ({by}) (rate(scorestream_{name}{{{S}}}[$__rate_interval]))", legend


def _gauge(name: str, by: str, how: str = "sum") -> Query:
    legend = ITS_NAME if by == WORKER else f"{{{{{by}}}}}"
    return f"{how} by ({by}) (scorestream_{name}{{{S}}})", legend


def _total(name: str, legend: str) -> Query:
    return f"sum(rate(scorestream_{name}{{{S}}}[$__rate_interval]))", legend


ROWS: dict[str, list[Panel]] = {
    "The promise": [
        ("Age of a request at its answer", "s", "The SLO.", _quantiles("record_age_seconds")),
        (
            "Requests per second",
            "reqps",
            "received above answered: a backlog grows inside; refused: see below.",
            [
                _total("received_records_total", "received"),
                _total("answered_records_total", "answered"),
                _total("refused_records_total", "refused"),
            ],
        ),
        (
            "Seconds of work waiting, per worker",
            "s",
            "How long the group needs to catch up.",
            [(f"sum(scorestream_work_waiting_seconds{{{S}}}) / count(scorestream_work_waiting_seconds{{{S}}})", "all")],
        ),
        ("Lag", "short", "Records from the committed offset to the end.", [_gauge("partition_lag_records", "topic")]),
        (
            "Ready, and live",
            "short",
            "Workers.",
            [(f"sum(scorestream_{name}{{{S}}})", name) for name in ("ready", "live")],
        ),
        ("What is wrong", "short", "Workers by condition.", [_gauge("condition", "condition")]),
    ],
    "Where the time goes": [
        (
            "Share of time in which each part is busy",
            "percentunit",
            "The part near 1 limits the throughput.",
            [(f"avg by (part) (rate(scorestream_busy_seconds_total{{{S}}}[$__rate_interval]))", "{{part}}")],
        ),
        (
            "Share of time by what a worker does",
            "percentunit",
            "starved: Kafka has requests and does not deliver them. idle: there are none.",
            [(f"avg by (activity) (avg_over_time(scorestream_activity{{{S}}}[$__rate_interval]))", "{{activity}}")],
        ),
        (
            "Processors of the worker's own process",
            "short",
            "Computing, and waiting for a free one; the engine's processes have their own.",
            [
                (f"sum by (part) (rate(scorestream_processor_seconds_total{{{S}}}[$__rate_interval]))", "{{part}}"),
                (f"sum(rate(scorestream_processor_wait_seconds_total{{{S}}}[$__rate_interval]))", "waiting"),
            ],
        ),
        (
            "Partitions that receive nothing, by cause",
            "s",
            "starved: what may be read does not come. open_transaction: a producer has not ended its own.",
            [(f"max by (cause) (scorestream_partition_unread_seconds{{{S}}})", "{{cause}}")],
        ),
        (
            "Stages of a request, p99",
            "s",
            "The one that grew is where to look.",
            _quantiles("stage_duration_seconds", "stage"),
        ),
        ("Event loop", "s", "How late it is.", [_gauge("event_loop_lag_seconds", WORKER, "max")]),
    ],
    "Engine": [
        (
            "Sequences inside",
            "short",
            "At the limit under load.",
            [
                _gauge("engine_sequences", WORKER),
                (f"max(scorestream_engine_limit_sequences{{{S}}})", "limit of a worker"),
            ],
        ),
        (
            "Tokens inside",
            "short",
            "At the limit with few sequences: texts are long.",
            [_gauge("engine_tokens", WORKER), (f"max(scorestream_engine_limit_tokens{{{S}}})", "limit of a worker")],
        ),
        ("Waiting for room", "short", "Above 0: the engine is the limit.", [_gauge("waiting_records", WORKER)]),
        ("Tokens per second", "short", "Computed.", [_rate("scored_tokens_total", WORKER)]),
        (
            "Micro-batch, from hand-over to return",
            "s",
            "Some engine steps.",
            _quantiles("micro_batch_duration_seconds"),
        ),
        (
            "Sequences of a micro-batch",
            "short",
            "Small ones under load cost throughput.",
            _quantiles("micro_batch_sequences"),
        ),
        (
            "GPU busy",
            "percentunit",
            "Share of time with a kernel on it.",
            [_gauge("gpu_utilization_ratio", "gpu", "avg")],
        ),
        ("GPU memory", "bytes", "In use.", [_gauge("gpu_memory_used_bytes", "gpu", "max")]),
        (
            "Deaths and restarts",
            "short",
            "Of engines, in an hour.",
            [(f"sum(increase(scorestream_engine_{what}_total{{{S}}}[1h]))", what) for what in ("deaths", "restarts")],
        ),
    ],
    "Partitions": [
        (
            "Held by the breaker",
            "short",
            "Partitions of which nearly all requests fail through this deployment's fault.",
            [_gauge("breaker_open_partitions", "code")],
        ),
        (
            "Age of the oldest request without an answer",
            "s",
            "Grows by a second per second where nothing is answered.",
            [(f"topk(5, scorestream_partition_oldest_age_seconds{{{S}}})", "{{topic}} {{partition}}")],
        ),
        (
            "Heads that do not move, nothing holding them",
            "s",
            "At scorestream_motionless_limit_seconds the worker is restarted.",
            [
                (f"topk(5, scorestream_partition_motionless_seconds{{{S}}})", "{{topic}} {{partition}}"),
                (f"max(scorestream_motionless_limit_seconds{{{S}}})", "limit"),
            ],
        ),
        (
            "Age of what is known of the lag",
            "s",
            "Above a minute: the lag cannot be read, and its panels show what was.",
            [_gauge("lag_age_seconds", WORKER, "max")],
        ),
        ("Held, by reason", "short", "That server does not take our writes.", [_gauge("partitions_held", "reason")]),
        (
            "Head of the slowest partitions",
            "s",
            "All behind it waits for it.",
            [(f"topk(5, scorestream_partition_head_wait_seconds{{{S}}})", "{{topic}} {{partition}}")],
        ),
        (
            "Largest lag of a partition",
            "short",
            "One alone: a hot key, or it is held or stuck.",
            [(f"topk(5, scorestream_partition_lag_records{{{S}}})", "{{topic}} {{partition}}")],
        ),
        (
            "Memory of requests in flight",
            "bytes",
            "At the limit nothing more is read.",
            [_gauge("inflight_bytes", WORKER), (f"max(scorestream_inflight_limit_bytes{{{S}}})", "limit of a worker")],
        ),
        (
            "Answered and uncommitted",
            "short",
            "What would be there twice after a crash.",
            [_gauge("partition_uncommitted_records", WORKER)],
        ),
        ("Owned", "short", "Partitions of each worker.", [_gauge("partitions", WORKER)]),
    ],
    "Sinks": [
        (
            "Duration of a write, p99",
            "s",
            "Grows before writes fail.",
            _quantiles("sink_write_duration_seconds", "sink"),
        ),
        (
            "Failed writes",
            "short",
            "Per second; tried again until they work.",
            [
                (
                    f'sum by (sink) (rate(scorestream_sink_writes_total{{{S},outcome="failed"}}[$__rate_interval]))',
                    "{{sink}}",
                )
            ],
        ),
        (
            "Results that Redis does not have",
            "short",
            "lost: it failed under best_effort; refused: it had a newer one.",
            [_total("redis_lost_writes_total", "lost"), _total("redis_refused_writes_total", "refused")],
        ),
    ],
    "Group": [
        (
            "Rebalances in 15 minutes",
            "short",
            "By what they did to a worker.",
            [(f"sum by (event) (increase(scorestream_rebalances_total{{{S}}}[15m]))", "{{event}}")],
        ),
        ("Duration of a rebalance", "s", "Nothing new is read meanwhile.", _quantiles("rebalance_duration_seconds")),
        ("Commits", "short", "Per second, by what the broker said.", [_rate("commits_total", "outcome")]),
    ],
    "Errors": [
        ("Refused, by code", "short", "Per second.", [_rate("refused_records_total", "code")]),
        ("Dead letters, by code", "short", "Per second.", [_rate("dead_letters_total", "code")]),
        (
            "Lost to retention",
            "short",
            "In an hour. They are gone.",
            [(f"sum(increase(scorestream_skipped_records_total{{{S}}}[1h]))", "lost")],
        ),
    ],
    "Processes": [
        (
            "Memory",
            "bytes",
            "Of the worker's own process.",
            [(f"process_resident_memory_bytes{{{S}}}", "{{pod}} {{instance}}")],
        ),
        (
            "Processor time",
            "short",
            "Cores, of the worker's own process.",
            [(f"rate(process_cpu_seconds_total{{{S}}}[$__rate_interval])", "{{pod}} {{instance}}")],
        ),
        ("Models", "short", "Two fingerprints score differently.", [_gauge("model_info", "fingerprint")]),
    ],
}


def dashboard() -> str:
    """Grafana's JSON."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, members in ROWS.items():
        place = {"h": 1, "w": _COLUMNS * _WIDTH, "x": 0, "y": top}
        panels.append(
            {"type": "row", "title": row, "gridPos": place, "collapsed": False, "id": len(panels) + 1, "panels": []}
        )
        top += 1
        for number, panel in enumerate(members):
            x, y = number % _COLUMNS * _WIDTH, top + number // _COLUMNS * _HEIGHT
            panels.append(_panel(panel, len(panels) + 1, {"h": _HEIGHT, "w": _WIDTH, "x": x, "y": y}))
        top += -(-len(members) // _COLUMNS) * _HEIGHT
    whole = {
        "title": "scorestream",
        "uid": "scorestream",
        "tags": ["scorestream", "kafka", "vllm"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }
    return json.dumps(whole, indent=2) + "\n"


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    title, unit, description, queries = panel
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "description": description,
        "gridPos": place,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(queries)
        ],
    }


def _variables() -> list[dict[str, Any]]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        {
            "name": "namespace",
            "type": "query",
            "datasource": source,
            "query": "label_values(scorestream_build_info{}, namespace)",
            "refresh": 2,
            # Outside Kubernetes no target has the label, and the list is empty.
            "includeAll": True,
            "allValue": ".*",
            "multi": True,
        },
        {
            "name": "job",
            "type": "query",
            "datasource": source,
            "query": 'label_values(scorestream_build_info{namespace=~"$namespace"}, job)',
            "refresh": 2,
            "includeAll": True,
            "multi": True,
        },
    ]
