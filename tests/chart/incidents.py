"""Incidents as the series that two workers export meanwhile, a value a minute, in promtool's notation."""

from dataclasses import dataclass, field

from tests.chart.normal_series import NORMAL, A, B, both


@dataclass(frozen=True)
class Incident:
    """What differs from normal, and which alerts then fire, each for how many series."""

    name: str
    fires: dict[str, int]
    changes: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    """Matchers of alerts that fire, as PromQL writes them, by the labels that lead to the cause."""
    gone: bool = False
    """No series at all."""
    minutes: int = 60
    """When to look; what happens begins at minute 20 or before."""

    def series(self) -> dict[str, str]:
        """Series -> values."""
        unknown = set(self.changes) - set(NORMAL)
        added = {name for name in unknown if name.split("{")[0] not in {known.split("{")[0] for known in NORMAL}}
        assert not added, f"normally there is no {added}"
        return {} if self.gone else {**NORMAL, **self.changes}


def not_let_in(condition: str) -> dict[str, str]:
    """Both workers, at their next connections: they can neither read, nor commit, nor write, nor stay in the group."""
    return {
        **both("scorestream_condition", "0x40 1x80", f',condition="{condition}"'),
        **both("scorestream_condition", "0x40 1x80", ',condition="source_refused"'),
        **both("scorestream_condition", "0x40 1x80", ',condition="commits_unanswered"'),
        **both("scorestream_condition", "0x40 1x80", ',condition="not_a_member"'),
        **both("scorestream_partitions_held", "0x40 12x80", ',reason="results_topic"'),
        **both("scorestream_ready", "1x40 0x80"),
        **both("scorestream_lag_age_seconds", "5x40 60+60x80"),
    }


STOPPED = "0+60000x20 1200000x100"
NOTHING_ANSWERED = {
    **both("scorestream_answered_records_total", STOPPED),
    **both("scorestream_refused_records_total", "0+60x20 1200x100", ',code="schema"'),
    **both("scorestream_refused_records_total", "0+60x20 1200x100", ',code="expired"'),
    **both("scorestream_record_age_seconds_bucket", STOPPED, ',outcome="answered",le="1"'),
    **both("scorestream_record_age_seconds_bucket", STOPPED, ',outcome="answered",le="100"'),
    **both("scorestream_record_age_seconds_bucket", STOPPED, ',outcome="answered",le="+Inf"'),
}
LAG = ',topic="score.requests",partition="0"'


def between_starts(before: str, value: str) -> str:
    """As `before` until minute 20, then at every other scrape, because each minute the process ends."""
    return " ".join([before, *(50 * (value, "stale"))])


CALM = Incident("all is well", {})
INCIDENTS = (
    Incident(
        "answers come late",
        {"ScorestreamRecordsOld": 1},
        both("scorestream_record_age_seconds_bucket", "0x120", ',outcome="answered",le="1"'),
    ),
    Incident(
        "more comes than can be scored", {"ScorestreamBehind": 1}, both("scorestream_work_waiting_seconds", "0+20x120")
    ),
    Incident(
        "stuck partition",
        {"ScorestreamPartitionStuck": 1},
        {f'scorestream_partition_motionless_seconds{A},topic="score.requests",partition="0"}}': "0x59 61x60"},
    ),
    Incident(
        "a partition that receives nothing",
        {"ScorestreamPartitionStarved": 1, "ScorestreamNotReady": 1},
        {
            f'scorestream_partition_unread_seconds{A}{LAG},cause="starved"}}': "1x40 0+60x80",
            f"scorestream_ready{A}}}": "1x40 0x80",
        },
        labels=('alertname="ScorestreamPartitionStarved",pod="worker-a",topic="score.requests",partition="0"',),
    ),
    Incident(
        "a broker that was frozen for a minute",
        {},
        {f'scorestream_partition_unread_seconds{A}{LAG},cause="starved"}}': "1x58 31 0x60"},
    ),
    Incident(
        "a transaction that hangs",
        {"ScorestreamTransactionOpen": 1},
        {f'scorestream_partition_unread_seconds{A}{LAG},cause="open_transaction"}}': "0x58 31 91x60"},
        labels=('alertname="ScorestreamTransactionOpen",pod="worker-a",topic="score.requests",partition="0"',),
        minutes=59,
    ),
    Incident(
        "a coordinator that is slow",
        {"ScorestreamCommitsUnanswered": 1},
        {f'scorestream_condition{A},condition="commits_unanswered"}}': "0x56 1x64"},
    ),
    Incident("nothing is answered", {"ScorestreamNothingAnswered": 1}, NOTHING_ANSWERED),
    Incident(
        "workers that answer nothing and start again each minute",
        {"ScorestreamNothingAnswered": 1, "ScorestreamRestarts": 2, "ScorestreamExited": 2},
        {
            **both("scorestream_answered_records_total", between_starts("0+60000x20", "0")),
            **both("scorestream_refused_records_total", between_starts("0+60x20", "0"), ',code="schema"'),
            **both("scorestream_refused_records_total", between_starts("0+60x20", "0"), ',code="expired"'),
            **both("scorestream_record_age_seconds_bucket", "0x120", ',outcome="answered",le="1"'),
            **both("scorestream_record_age_seconds_bucket", "0x120", ',outcome="answered",le="100"'),
            **both("scorestream_record_age_seconds_bucket", "0x120", ',outcome="answered",le="+Inf"'),
            **both("scorestream_partition_lag_records", between_starts("100x20", "100"), LAG),
            **both("scorestream_lag_age_seconds", between_starts("5x20", "5")),
            **both("up", " ".join(["1x20", *(50 * ("1", "0"))])),
            **both("process_start_time_seconds", " ".join(["1000x20", *(f"{2000 + at} stale" for at in range(50))])),
        },
    ),
    Incident("nobody asks", {}, NOTHING_ANSWERED | both("scorestream_partition_lag_records", "100x20 0x100", LAG)),
    Incident(
        "all brokers are away before anybody asks",
        {"ScorestreamBrokerAway": 2, "ScorestreamNotReady": 2, "ScorestreamLagUnknown": 2},
        {
            **NOTHING_ANSWERED,
            **both("scorestream_partition_lag_records", "100x20 0x100", LAG),
            **both("scorestream_condition", "0x40 1x80", ',condition="broker_away"'),
            **both("scorestream_condition", "0x40 1x80", ',condition="not_a_member"'),
            **both("scorestream_ready", "1x40 0x80"),
            **both("scorestream_lag_age_seconds", "5x40 60+60x80"),
        },
    ),
    Incident(
        "new workers that cannot read the lag, and answer nothing",
        {"ScorestreamNothingAnswered": 1, "ScorestreamLagUnknown": 2},
        {
            **NOTHING_ANSWERED,
            **both("scorestream_partition_lag_records", "100x20 stale", LAG),
            **both("scorestream_lag_age_seconds", "5x20 60+60x100"),
        },
    ),
    Incident(
        "one start that takes seven minutes while requests wait",
        {"ScorestreamExited": 2},
        {
            **both("scorestream_answered_records_total", "0+60000x40 stale _x6 0+60000x70"),
            **both("scorestream_refused_records_total", "0+60x40 stale _x6 0+60x70", ',code="schema"'),
            **both("scorestream_refused_records_total", "0+60x40 stale _x6 0+60x70", ',code="expired"'),
            **both("scorestream_partition_lag_records", "100x40 stale _x6 100x70", LAG),
            **both("process_start_time_seconds", "1000x40 4000x80"),
        },
        minutes=48,
    ),
    Incident(
        "retention outran the group",
        {"ScorestreamRecordsLost": 1},
        {f"scorestream_skipped_records_total{A}}}": "0x50 5000x70"},
    ),
    Incident(
        "Redis outage",
        {"ScorestreamPartitionsHeld": 1, "ScorestreamSinkFailing": 1},
        {
            **both("scorestream_partitions_held", "0x40 12x80", ',reason="redis"'),
            **both("scorestream_sink_writes_total", "0+6000x40 240000x80", ',sink="redis",outcome="ok"'),
            **both("scorestream_sink_writes_total", "0x40 0+30x80", ',sink="redis",outcome="failed"'),
        },
    ),
    Incident(
        "Redis outage under best_effort",
        {"ScorestreamRedisMisses": 1},
        {f"scorestream_redis_lost_writes_total{A}}}": "0x50 100x70"},
    ),
    Incident(
        "poison flood",
        {"ScorestreamBreakerOpen": 1, "ScorestreamDeadLetters": 1},
        {
            f'scorestream_partitions_held{A},reason="breaker"}}': "0x50 3x70",
            f'scorestream_breaker_open_partitions{A},code="internal"}}': "0x50 3x70",
            f'scorestream_dead_letters_total{A},code="internal"}}': "0x48 200x72",
        },
        labels=('alertname="ScorestreamBreakerOpen",pod="worker-a",code="internal"',),
    ),
    Incident(
        "producers send nonsense",
        {"ScorestreamManyRefused": 1},
        both("scorestream_refused_records_total", "0+6000x120", ',code="schema"'),
    ),
    Incident(
        "deadlines pass",
        {"ScorestreamManyExpired": 1},
        both("scorestream_refused_records_total", "0+6000x120", ',code="expired"'),
    ),
    Incident(
        "dead engine",
        {"ScorestreamEngineDied": 1},
        {f"scorestream_engine_deaths_total{A}}}": "0x55 1x65"},
    ),
    Incident(
        "a worker ends once",
        {"ScorestreamExited": 1},
        {f"process_start_time_seconds{A}}}": "1000x50 4000x70"},
    ),
    Incident(
        "a worker dies again and again",
        {"ScorestreamRestarts": 1, "ScorestreamExited": 1},
        {f"process_start_time_seconds{A}}}": "1000x40 3400x5 3700x5 4000x70"},
    ),
    Incident(
        "a worker runs and does not score",
        {"ScorestreamNotReady": 1},
        {f"scorestream_ready{A}}}": "1x40 0x80"},
    ),
    Incident(
        "a model that never comes up",
        {"ScorestreamStartTakesLong": 1},
        {
            f"scorestream_ready{A}}}": "0x120",
            f'scorestream_lifecycle{A},state="running"}}': "0x120",
            f'scorestream_lifecycle{A},state="warming"}}': "1x120",
        },
    ),
    Incident(
        "a worker of several that never comes up",
        {"ScorestreamStartTakesLong": 1},
        {
            f'scorestream_workers{A},phase="running"}}': "4x20 3x100",
            f'scorestream_workers{A},phase="down"}}': "0x20 1x100",
        },
    ),
    Incident(
        "a processor that is throttled",
        {"ScorestreamEventLoopLate": 1},
        {f"scorestream_event_loop_lag_seconds{A}}}": "0x40 4x80"},
    ),
    Incident("a target that does not answer", {"ScorestreamDown": 1}, {f"up{A}}}": "1x40 0x80"}),
    Incident("no worker at all", {"ScorestreamAbsent": 1}, gone=True),
    Incident(
        "half a roll-out",
        {"ScorestreamTwoModels": 1},
        {f'scorestream_model_info{A},fingerprint="beef"}}': "1x120"},
        minutes=90,
    ),
    Incident(
        "commits that an ACL forbids",
        {"ScorestreamRefusedByKafka": 1, "ScorestreamNotReady": 1},
        {
            f'scorestream_condition{A},condition="commits_refused"}}': "0x40 1x80",
            f"scorestream_ready{A}}}": "1x40 0x80",
        },
        labels=('alertname="ScorestreamRefusedByKafka",pod="worker-a",condition="commits_refused"',),
    ),
    Incident(
        "token expiry",
        {"ScorestreamRefusedByKafka": 2, "ScorestreamNotReady": 2, "ScorestreamLagUnknown": 2},
        not_let_in("authentication_failed"),
        labels=('alertname="ScorestreamRefusedByKafka",pod="worker-a",condition="authentication_failed"',),
    ),
    Incident(
        "the identity provider is away",
        {"ScorestreamRefusedByKafka": 2, "ScorestreamNotReady": 2, "ScorestreamLagUnknown": 2},
        not_let_in("token_unavailable"),
        labels=('alertname="ScorestreamRefusedByKafka",pod="worker-a",condition="token_unavailable"',),
    ),
    Incident(
        "a worker that is not let in, beside one whose results topic does not take its writes",
        {"ScorestreamRefusedByKafka": 1, "ScorestreamPartitionsHeld": 1},
        {
            f'scorestream_condition{A},condition="authentication_failed"}}': "0x40 1x80",
            **both("scorestream_partitions_held", "0x40 12x80", ',reason="results_topic"'),
        },
        labels=('alertname="ScorestreamPartitionsHeld",reason="results_topic"',),
    ),
    Incident(
        "a worker that is not let in, while Redis is away",
        {"ScorestreamRefusedByKafka": 1, "ScorestreamPartitionsHeld": 1},
        {
            f'scorestream_condition{A},condition="authentication_failed"}}': "0x40 1x80",
            f'scorestream_partitions_held{A},reason="redis"}}': "0x40 12x80",
        },
        labels=('alertname="ScorestreamPartitionsHeld",reason="redis"',),
    ),
    Incident(
        "all brokers are away",
        {
            "ScorestreamBrokerAway": 2,
            "ScorestreamNotReady": 2,
            "ScorestreamLagUnknown": 2,
        },
        {
            **both("scorestream_condition", "0x40 1x80", ',condition="broker_away"'),
            **both("scorestream_condition", "0x40 1x80", ',condition="commits_unanswered"'),
            **both("scorestream_condition", "0x40 1x80", ',condition="not_a_member"'),
            **both("scorestream_partitions_held", "0x40 12x80", ',reason="results_topic"'),
            **both("scorestream_ready", "1x40 0x80"),
            **both("scorestream_lag_age_seconds", "5x40 60+60x80"),
        },
    ),
    Incident(
        "the coordinator is away",
        {"ScorestreamOutOfGroup": 2, "ScorestreamNotReady": 2, "ScorestreamLagUnknown": 2},
        {
            **both("scorestream_condition", "0x40 1x80", ',condition="commits_unanswered"'),
            **both("scorestream_condition", "0x40 1x80", ',condition="not_a_member"'),
            **both("scorestream_ready", "1x40 0x80"),
            **both("scorestream_lag_age_seconds", "5x40 60+60x80"),
        },
    ),
    Incident(
        "rebalance storm",
        {"ScorestreamRebalanceStorm": 1, "ScorestreamMembershipLost": 1},
        {
            **both("scorestream_rebalances_total", "1x40 1+1x80", ',event="assigned"'),
            f'scorestream_rebalances_total{B},event="lost"}}': "0x50 1x70",
        },
    ),
)
