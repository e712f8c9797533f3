"""What two workers export while all is well, a value a minute, in promtool's notation."""

UNREAD = ',topic="score.requests",partition="0"'
A, B = '{pod="worker-a"', '{pod="worker-b"'


def both(name: str, values: str, labels: str = "") -> dict[str, str]:
    """The same of both workers."""
    return {f"{name}{pod}{labels}}}": values for pod in (A, B)}


NORMAL: dict[str, str] = {
    **both("up", "1x120"),
    **both("process_start_time_seconds", "1000x120"),
    **both("scorestream_build_info", "1x120", ',version="0.1.0",engine_version="0.32.0"'),
    **both("scorestream_model_info", "1x120", ',fingerprint="f00d"'),
    **both("scorestream_ready", "1x120"),
    **both("scorestream_lifecycle", "1x120", ',state="running"'),
    **both("scorestream_lifecycle", "0x120", ',state="warming"'),
    **both("scorestream_workers", "4x120", ',phase="running"'),
    **both("scorestream_workers", "0x120", ',phase="down"'),
    **both("scorestream_condition", "0x120", ',condition="commits_refused"'),
    **both("scorestream_condition", "0x120", ',condition="commits_unanswered"'),
    **both("scorestream_condition", "0x120", ',condition="not_a_member"'),
    **both("scorestream_condition", "0x120", ',condition="broker_away"'),
    **both("scorestream_condition", "0x120", ',condition="source_refused"'),
    **both("scorestream_condition", "0x120", ',condition="authentication_failed"'),
    **both("scorestream_condition", "0x120", ',condition="token_unavailable"'),
    **both("scorestream_work_waiting_seconds", "5x120"),
    **both("scorestream_partition_lag_records", "100x120", ',topic="score.requests",partition="0"'),
    **both("scorestream_partition_motionless_seconds", "0x120", ',topic="score.requests",partition="0"'),
    **both("scorestream_motionless_limit_seconds", "120x120"),
    **both("scorestream_partition_unread_seconds", "1x120", UNREAD + ',cause="starved"'),
    **both("scorestream_partition_unread_seconds", "0 2 1 0x117", UNREAD + ',cause="open_transaction"'),
    **both("scorestream_unread_limit_seconds", "30x120"),
    **both("scorestream_partitions_held", "0x120", ',reason="redis"'),
    **both("scorestream_partitions_held", "0x120", ',reason="breaker"'),
    **both("scorestream_breaker_open_partitions", "0x120", ',code="internal"'),
    **both("scorestream_breaker_open_partitions", "0x120", ',code="wrong_model"'),
    **both("scorestream_partitions_held", "0x120", ',reason="results_topic"'),
    **both("scorestream_answered_records_total", "0+60000x120"),
    **both("scorestream_refused_records_total", "0+60x120", ',code="schema"'),
    **both("scorestream_refused_records_total", "0+60x120", ',code="expired"'),
    **both("scorestream_dead_letters_total", "0x120", ',code="internal"'),
    **both("scorestream_skipped_records_total", "0x120"),
    **both("scorestream_engine_deaths_total", "0x120"),
    **both("scorestream_event_loop_lag_seconds", "0x120"),
    **both("scorestream_lag_age_seconds", "5x120"),
    **both("scorestream_rebalances_total", "1x120", ',event="assigned"'),
    **both("scorestream_rebalances_total", "0x120", ',event="lost"'),
    **both("scorestream_sink_writes_total", "0+6000x120", ',sink="redis",outcome="ok"'),
    **both("scorestream_sink_writes_total", "0x120", ',sink="redis",outcome="failed"'),
    **both("scorestream_redis_lost_writes_total", "0x120"),
    **both("scorestream_record_age_seconds_bucket", "0+60000x120", ',outcome="answered",le="1"'),
    **both("scorestream_record_age_seconds_bucket", "0+60000x120", ',outcome="answered",le="100"'),
    **both("scorestream_record_age_seconds_bucket", "0+60000x120", ',outcome="answered",le="+Inf"'),
}
