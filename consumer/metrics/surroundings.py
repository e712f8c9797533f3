"""Metrics of what stands around the work: partitions, the group, the sinks, the process."""

from consumer.breaker import SUSPICIOUS
from consumer.health import Condition, Lifecycle
from consumer.lane import Hold
from consumer.metrics.definition import counter, gauge, histogram
from consumer.metrics.work import DURATION_BUCKETS_SECONDS
from consumer.unread import Cause

SINKS = ("results", "dead_letters", "redis")
SUSPICIOUS_CODES = tuple(sorted(code.value for code in SUSPICIOUS))
PARTITION: dict[str, None] = {"topic": None, "partition": None}

# ---------------------------------------------------------------------------------------------------- partitions

PARTITIONS = gauge(
    "partitions",
    "Partitions that this worker owns. closing: it finishes what it has started, before they go to another worker.",
    "0 on some workers: more workers than partitions. closing for long: scorestream_rebalance_duration_seconds.",
    state=("open", "closing"),
)
PARTITIONS_HELD = gauge(
    "partitions_held",
    "Partitions whose requests wait for something, by what that is.",
    "Above 0 for a minute: that topic or Redis does not take our writes, and nothing is lost meanwhile. breaker: most "
    "requests fail through this deployment's fault (a wrong model or revision?); one is tried every "
    "breaker.probe_seconds, and the first success lets the partition go on.",
    reason=tuple(hold.name.lower() for hold in Hold),
)
BREAKER_OPENS = counter(
    "breaker_opens",
    "How often the breaker began to hold a partition, by the error that was most frequent. Requests that are tried "
    "again do not count, nor does a partition that is let go and held again before breaker.window_records went well.",
    "Any: compare with the last deployment. scorestream_refused_records_total does not count what the breaker holds.",
    code=SUSPICIOUS_CODES,
)
BREAKER_OPEN = gauge(
    "breaker_open_partitions",
    "Partitions that the breaker holds now, by the error that was most frequent when it began to.",
    "Above 0 for a minute: most requests fail by it, and it is this deployment's fault; compare with the last one.",
    code=SUSPICIOUS_CODES,
)
LAG = gauge(
    "partition_lag_records",
    "Offsets from the committed one to the end of the partition, for transactions the last stable one. Read every "
    "5 s; compacted records and transaction markers count.",
    "Grows on all partitions: too few workers. On one: a hot key, or the partition is held or stuck.",
    **PARTITION,
)
LAG_AGE = gauge(
    "lag_age_seconds",
    "How long ago the ends of the partitions were read.",
    "Above 60 s: the broker does not answer, and lag is as old as that.",
)
LAG_READS_FAILED = counter("lag_reads_failed", "Ends of partitions that could not be read.", "See lag_age_seconds.")
IN_FLIGHT = gauge(
    "partition_inflight_records",
    "Requests of the partition that were received and whose answers are not acknowledged.",
    "At scorestream_inflight_limit_records: the partition's window is full. Its throughput is at most that, divided by "
    "the time of its slowest request.",
    **PARTITION,
)
IN_FLIGHT_LIMIT = gauge("inflight_limit_records", "The most such requests of one partition.", "limits.lane_records.")
UNCOMMITTED = gauge(
    "partition_uncommitted_records",
    "Answers of the partition that are acknowledged and whose offsets are not committed: what would be there twice if "
    "the worker was killed now.",
    "At limits.max_uncommitted_records the partition waits for its commit: look at scorestream_commits_total.",
    **PARTITION,
)
OLDEST_AGE = gauge(
    "partition_oldest_age_seconds",
    "Age, by its Kafka timestamp, of the oldest request in flight of the partition; 0 when there is none.",
    "What the next answer's age will be at least. High with lag: a backlog.",
    **PARTITION,
)
HEAD_WAIT = gauge(
    "partition_head_wait_seconds",
    "How long ago this worker received the request at the head of the partition; 0 when there is none.",
    "All behind it waits for it. High on all partitions: a backlog, as much of it as a worker reads ahead. On one: "
    "that request is slow, or the partition is held or stuck.",
    **PARTITION,
)
MOTIONLESS = gauge(
    "partition_motionless_seconds",
    "For how long the request at the head of the partition has not come on, and nothing that has a name holds it: no "
    "server, no breaker, no engine that computes it; 0 while it moves, or there is none.",
    "Above 0 for seconds: it waits for the tokenizer or an IO processor, or a bug. Above "
    "scorestream_motionless_limit_seconds the worker is not live.",
    **PARTITION,
)
MOTIONLESS_LIMIT = gauge(
    "motionless_limit_seconds",
    "The most of it, before the worker is restarted.",
    "health.stuck_seconds.",
)
UNREAD = gauge(
    "partition_unread_seconds",
    "For how long the partition has nothing in flight and has received nothing although it should. starved: there is "
    "something that may be read, or its broker answers no fetch; open_transaction: a producer's transaction keeps its "
    "records from being read. Near 0 while it is read, or there is nothing to read.",
    "Above scorestream_unread_limit_seconds the worker is unready; ask /readyz.",
    **PARTITION,
    cause=tuple(cause.value for cause in Cause),
)
UNREAD_LIMIT = gauge(
    "unread_limit_seconds",
    "For how long a partition may receive nothing although it should, before the worker is unready.",
    "health.unread_seconds.",
)
IN_OPEN_TRANSACTION = gauge(
    "partition_open_transaction_records",
    "Offsets from the last stable one to the high watermark of the partition: what stands in an open transaction, or "
    "behind one. Lag does not count it.",
    "Some while producers write in transactions. The same ones for scorestream_unread_limit_seconds: a transaction "
    "hangs, and nobody reads what is behind it.",
    **PARTITION,
)
IN_FLIGHT_BYTES = gauge(
    "inflight_bytes",
    "Estimated memory of all requests in flight.",
    "At its limit nothing more is read: payloads are large, or results wait for a sink.",
)
IN_FLIGHT_BYTES_LIMIT = gauge("inflight_limit_bytes", "The most of it.", "limits.memory_bytes.")

# ------------------------------------------------------------------------------------------- group and commits

REBALANCES = counter(
    "rebalances",
    "assigned: the group gave this worker an assignment; revoked: it gave partitions back, all finished; unfinished: "
    "it gave them back when shutdown.revoke_seconds or drain_seconds had passed; lost: the group had counted it out. "
    "After the last two the next owners do again what was in flight.",
    "More than one every few minutes without a deployment: workers die, or sessions expire. unfinished: a sink or the "
    "engine is slow. lost: the process was frozen or cut off for kafka.session_timeout_seconds.",
    event=("assigned", "revoked", "unfinished", "lost"),
)
REBALANCE_DURATION = histogram(
    "rebalance_duration_seconds",
    "From giving the old assignment back to having the new one. Nothing new is read meanwhile.",
    "Near kafka.rebalance_timeout_seconds: a member does not answer, and the group waits for it.",
    DURATION_BUCKETS_SECONDS,
)
COMMITS = counter(
    "commits",
    "Commits, by what the broker said. unanswered: it did not answer within commit.timeout_seconds.",
    "refused for longer than a rebalance: this worker is out of the group, or an ACL forbids it; ask /readyz. "
    "unanswered: the group's coordinator is slow, or away. No growth of ok with lag: nothing is answered.",
    outcome=("ok", "refused", "unanswered"),
)
COMMIT_DURATION = histogram(
    "commit_duration_seconds",
    "Of a commit, the refused ones included.",
    "Near commit.timeout_seconds: the group's coordinator is slow.",
    DURATION_BUCKETS_SECONDS,
)
FENCE_CLOSED = gauge(
    "stall_fence_closed",
    "1 while nothing is emitted, because the process was frozen and no commit has been accepted since.",
    "1 for longer than a few seconds: the broker refuses the commits; ask /readyz.",
)

# ----------------------------------------------------------------------------------------------------- the sinks

SINK_WRITES = counter(
    "sink_writes",
    "Writes to a topic or to Redis, each of up to limits.chunk_records records.",
    "failed is tried again until it works, and holds its partition meanwhile; redis.mode best_effort gives up. Steady "
    "growth: that server, its quota or its ACLs.",
    sink=SINKS,
    outcome=("ok", "failed"),
)
SINK_WRITE_DURATION = histogram(
    "sink_write_duration_seconds",
    "Of a write, the failed ones included.",
    "Grows before writes fail. results: the brokers' replication; redis: its slow log.",
    DURATION_BUCKETS_SECONDS,
    sink=SINKS,
)
REDIS_REFUSED = counter(
    "redis_refused_writes",
    "Results that Redis did not take, because it holds a newer one for that id.",
    "Some after a replay or a crash are as it should be. Many in normal running: two producers use the same ids.",
)
REDIS_LOST = counter(
    "redis_lost_writes",
    "Results that Redis does not have, because it failed and redis.mode is best_effort.",
    "They are on the results topic. Growth: Redis is away.",
)

# --------------------------------------------------------------------------------------------------- the process

LIFECYCLE = gauge(
    "lifecycle",
    "1 for the state in which the process is, 0 for the others.",
    "starting or warming for longer than engine.start_timeout_seconds: the log says what it waits for.",
    state=tuple(state.value for state in Lifecycle),
)
LIVE = gauge("live", "What /livez says: 1 for 200, 0 for 503.", "0: the process is about to be restarted.")
READY = gauge(
    "ready",
    "What /readyz says: 1 for 200, 0 for 503.",
    "0 for minutes while running: scorestream_condition says why, /readyz with the details.",
)
CONDITION = gauge(
    "condition",
    "1 for each thing that /readyz or /livez says is wrong.",
    "The table in operate.md says what each means, and whether the process then ends.",
    condition=tuple(condition.value for condition in Condition),
)
BUILD_INFO = gauge(
    "build_info",
    "Always 1; the versions are its labels. `engine_version` is empty for the scripted engine.",
    "More than one version for long: a deployment has not finished.",
    version=None,
    engine_version=None,
)
MODEL_INFO = gauge(
    "model_info",
    "Always 1 once the model is loaded; what it is are its labels.",
    "Two fingerprints in one group: the same request gets different scores, depending on its partition.",
    model=None,
    revision=None,
    fingerprint=None,
    dtype=None,
    kind=None,
)

SECTIONS = {
    "Partitions": (
        PARTITIONS,
        PARTITIONS_HELD,
        BREAKER_OPENS,
        BREAKER_OPEN,
        LAG,
        LAG_AGE,
        LAG_READS_FAILED,
        IN_FLIGHT,
        IN_FLIGHT_LIMIT,
        UNCOMMITTED,
        OLDEST_AGE,
        HEAD_WAIT,
        MOTIONLESS,
        MOTIONLESS_LIMIT,
        UNREAD,
        UNREAD_LIMIT,
        IN_OPEN_TRANSACTION,
        IN_FLIGHT_BYTES,
        IN_FLIGHT_BYTES_LIMIT,
    ),
    "Group and commits": (REBALANCES, REBALANCE_DURATION, COMMITS, COMMIT_DURATION, FENCE_CLOSED),
    "The sinks": (SINK_WRITES, SINK_WRITE_DURATION, REDIS_REFUSED, REDIS_LOST),
    "The process": (LIFECYCLE, LIVE, READY, CONDITION, BUILD_INFO, MODEL_INFO),
}
