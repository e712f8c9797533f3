"""Metrics of the work itself: how old answers are, how many, where the time goes, what is in the engine."""

from consumer.item import StageSeconds
from consumer.metrics.definition import counter, gauge, histogram
from consumer.metrics.processor_time import PROCESSOR_PARTS
from schemas.errors import ErrorCode

AGE_BUCKETS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
DURATION_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

ACTIVITIES = ("working", "held", "starved", "idle")
OUTCOMES = ("answered", "refused")
STAGES = (*StageSeconds._fields, "write", "total")
PARTS = ("prepare", "engine", "shape", "results", "dead_letters", "redis", "commit")
CODES = tuple(code.value for code in ErrorCode)

# ---------------------------------------------------------------------------------------------------- the promise

RECORD_AGE = histogram(
    "record_age_seconds",
    "From the request's Kafka timestamp to the acknowledgement of its result or dead letter by every required sink.",
    "The SLO. Above it while scorestream_work_waiting_seconds grows: too few workers. Above it without lag: look at "
    "scorestream_stage_duration_seconds. Producers set the timestamp, so their clocks count.",
    AGE_BUCKETS_SECONDS,
    outcome=OUTCOMES,
)
WORK_WAITING = gauge(
    "work_waiting_seconds",
    "How long this worker needs for what its partitions hold: lagging records x busy seconds per record, both as "
    "measured over the last five minutes, of the engine or of prepare, whichever is busier. 0 until something was "
    "measured.",
    "Scale on it: the sum over all workers divided by their number is how long the group needs to catch up. It grows "
    "while more comes than can be scored.",
)
RECEIVED = counter(
    "received_records",
    "Requests read from Kafka. Those read again after a rebalance count again.",
    "Flat while there is lag: the worker is not a member, or all its partitions are held; ask /readyz.",
)
ANSWERED = counter(
    "answered_records",
    "Requests whose scores were acknowledged by every required sink.",
    "The throughput.",
)
REFUSED = counter(
    "refused_records",
    "Requests answered with an error, by its code.",
    "`malformed`, `schema` and the like are the producers'. `internal`, `non_finite`, `engine_rejected`, `wrong_model` "
    "and `unsupported_task` are this deployment's, and may open the breaker. `expired` in numbers is overload.",
    code=CODES,
)
DEAD_LETTERS = counter(
    "dead_letters",
    "Requests that were put on the dead-letter topic, by their error's code.",
    "Any growth deserves a look at the topic: `scorestream replay` brings them back once the cause is gone.",
    code=tuple(code.value for code in ErrorCode if code.dead_letter),
)
SKIPPED = counter(
    "skipped_records",
    "Offsets that retention removed before this worker read them. They are lost.",
    "Page on any growth: lag has outlived the request topic's retention. Raise retention.ms, then add workers.",
)

# ----------------------------------------------------------------------------------------------- where time goes

STAGE_DURATION = histogram(
    "stage_duration_seconds",
    "Of every answered or refused request, the time in each stage. prepare: decoded and tokenised, waiting for it "
    "included; queue: for room in the engine; engine; shape: outputs to bytes; emit: for earlier requests of its "
    "partition; write: until every sink has acknowledged it; total: all of them.",
    "The stage that grew is where to look. queue: the engine is full, which is as it should be under load. emit: a "
    "slow request at the head of its partition. write: Kafka or Redis is slow.",
    DURATION_BUCKETS_SECONDS,
    stage=STAGES,
)
BUSY = counter(
    "busy_seconds",
    "Time in which at least one batch was in this part of the worker, or on its way to this server.",
    "Its rate is a share of one. engine near 1 is what you pay for. prepare near 1: the tokenizer is the limit, run "
    "more workers on the GPU. engine and prepare far below 1 with lag: look at the sinks and at held partitions.",
    part=PARTS,
)
PROCESSOR = counter(
    "processor_seconds",
    "Processor time of the worker's own process: of its event loop's thread, and of all other threads, of which the "
    "tokenizer's are the most. Linux only. The engine's processes have their own.",
    'Beside scorestream_busy_seconds_total{part="prepare"}: if that is near 1 and these threads compute as much, the '
    "tokenizer is the limit; if they compute far less, see scorestream_processor_wait_seconds_total. event_loop near "
    "1: run more workers.",
    part=PROCESSOR_PARTS,
)
PROCESSOR_WAIT = counter(
    "processor_wait_seconds",
    "Time in which threads of the worker's own process were ready and no processor was free for them. Linux only; the "
    "time in which a CPU limit stopped them is not in it.",
    "Growing by more than a tenth of scorestream_processor_seconds_total: the machine has too few processors for its "
    "workers. Ask for more, or run fewer workers on it.",
    part=PROCESSOR_PARTS,
)
ACTIVITY = gauge(
    "activity",
    "What the worker does now; 1 for one of four. working: requests are in it and move. held: every partition that has "
    "requests waits for a topic, Redis or the breaker. starved: nothing is in it although Kafka has requests for it. "
    "idle: nothing is in it and there is nothing for it.",
    "avg_over_time says the share of each. starved for more than seconds: Kafka does not deliver, see "
    "scorestream_partition_unread_seconds. idle on some workers only: the partitions are not spread over all.",
    activity=ACTIVITIES,
)
LOOP_LAG = gauge(
    "event_loop_lag_seconds",
    "How late the last look of the watchdog came.",
    "Above 1 s: something blocks the event loop, or the processor is throttled. Above health.loop_lag_seconds the "
    "worker is not live.",
)

# ---------------------------------------------------------------------------------------------------- the engine

ENGINE_SEQUENCES = gauge(
    "engine_sequences",
    "Sequences in the engine: computed now, or ready beside it.",
    "At its limit under load. Near 0 with lag: the engine starves; look at scorestream_busy_seconds_total and "
    "scorestream_partitions_held.",
)
ENGINE_SEQUENCES_LIMIT = gauge(
    "engine_limit_sequences",
    "The most sequences that are let into the engine.",
    "At most engine.max_num_seqs x engine.steps_in_flight; narrower while steps come back full all the same.",
)
ENGINE_TOKENS = gauge(
    "engine_tokens",
    "Tokens in the engine, shared prefixes counted once.",
    "At its limit with few sequences: texts are long.",
)
ENGINE_TOKENS_LIMIT = gauge(
    "engine_limit_tokens",
    "The most tokens that are let into the engine.",
    "At most engine.max_num_batched_tokens x engine.steps_in_flight.",
)
WAITING_RECORDS = gauge(
    "waiting_records",
    "Requests that are tokenised and wait for room in the engine.",
    "Above 0 all the time: the engine is the limit. 0 with lag: what comes before it is.",
)
WAITING_TOKENS = gauge("waiting_tokens", "Tokens of the waiting requests.", "See scorestream_waiting_records.")
MICRO_BATCH_SEQUENCES = histogram(
    "micro_batch_sequences",
    "Sequences handed to the engine at once.",
    "Small ones under load cost throughput: raise micro_batch.linger_ms or micro_batch.max_records.",
    SIZE_BUCKETS,
)
MICRO_BATCH_DURATION = histogram(
    "micro_batch_duration_seconds",
    "From handing a micro-batch to the engine to its return: engine.steps_in_flight steps, about, when it is full.",
    "Grows with the length of texts. With equal texts: another process is on the GPU, or it is throttled.",
    DURATION_BUCKETS_SECONDS,
)
SCORED_SEQUENCES = counter(
    "scored_sequences",
    "Sequences that the engine returned, replays included.",
    "A rerank request has one for each document.",
)
SCORED_TOKENS = counter(
    "scored_tokens",
    "Tokens that the engine computed, shared prefixes counted once.",
    'Its rate over that of scorestream_busy_seconds_total{part="engine"} is the engine\'s speed.',
)
ENGINE_DEATHS = counter(
    "engine_deaths",
    "How often the engine died, or hung and was given up.",
    "Any: read the worker's log. Twice within engine.restart_period_seconds, and the process exits with 1.",
)
ENGINE_RESTARTS = counter(
    "engine_restarts",
    "How often another engine was started in place of a dead one, and came up.",
    "See scorestream_engine_deaths_total.",
)
SUSPECT_RECORDS = gauge(
    "suspect_records",
    "Requests that were alone in the engine when it died.",
    "Above 0: a request kills the engine. It is refused the second time; the log names its partition and offset.",
)
GPU_UTILIZATION = gauge(
    "gpu_utilization_ratio",
    "Share of the last sampling period in which some kernel ran on the GPU, from the driver. No series "
    "without a GPU, and none for a slice of one (MIG).",
    'Near 1 says busy, not efficient. Low with scorestream_busy_seconds_total{part="engine"} near 1: the engine\'s '
    "own processor time is the limit; run more workers on the GPU.",
    gpu=None,
)
GPU_MEMORY_USED = gauge(
    "gpu_memory_used_bytes",
    "Memory of the GPU in use, by the driver and every process on it.",
    "vLLM takes its share at start; growth afterwards is somebody else's.",
    gpu=None,
)
GPU_MEMORY = gauge("gpu_memory_bytes", "Memory of the GPU.", "For the share that is used.", gpu=None)

SECTIONS = {
    "The promise": (RECORD_AGE, WORK_WAITING, RECEIVED, ANSWERED, REFUSED, DEAD_LETTERS, SKIPPED),
    "Where the time goes": (STAGE_DURATION, ACTIVITY, BUSY, PROCESSOR, PROCESSOR_WAIT, LOOP_LAG),
    "The engine": (
        ENGINE_SEQUENCES,
        ENGINE_SEQUENCES_LIMIT,
        ENGINE_TOKENS,
        ENGINE_TOKENS_LIMIT,
        WAITING_RECORDS,
        WAITING_TOKENS,
        MICRO_BATCH_SEQUENCES,
        MICRO_BATCH_DURATION,
        SCORED_SEQUENCES,
        SCORED_TOKENS,
        ENGINE_DEATHS,
        ENGINE_RESTARTS,
        SUSPECT_RECORDS,
        GPU_UTILIZATION,
        GPU_MEMORY_USED,
        GPU_MEMORY,
    ),
}
