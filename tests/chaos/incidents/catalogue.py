"""The incidents, each with what it must raise, and what a pod says meanwhile."""

from dataclasses import dataclass, field

from tests.chaos.incidents import processes, strikes
from tests.chaos.incidents.pod import SILENT
from tests.chaos.incidents.scene import Credentials, Setting
from tests.chaos.incidents.strikes import Strike
from tests.chaos.load import BAD, Mix

SYMPTOMS = frozenset({"ScorestreamNotReady", "ScorestreamNothingAnswered"})
"""Pages that say that something is wrong, whatever it is; the alert of the cause is beside them."""
AWAY = SYMPTOMS | {"ScorestreamDown", "ScorestreamAbsent"}
"""Also of a worker that ends, where the machine takes long to start the next one."""
NONSENSE = Mix(good=BAD[0], bad=BAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """`alerts`: each must fire. `beside`: other pages that may. `named`: what the runbook's section must speak of."""

    name: str
    strike: Strike
    alerts: tuple[str, ...]
    beside: frozenset[str] = frozenset()
    named: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """Which the first alert must have."""
    ready: tuple[str, ...] = ()
    """Conditions that /readyz names; none: every pod stays ready."""
    live: tuple[str, ...] = ()
    """Conditions that /livez names; none: every pod stays live."""
    setting: Setting = field(default_factory=Setting)


SLOW_ENGINE: dict[str, object] = {
    "engine.max_num_seqs": 4,
    "engine.scripted_seconds_per_step": 0.1,
    "micro_batch.max_records": 4,
}
"""40 requests a second, however busy the machine is."""

SOON_UNREAD: dict[str, object] = {"health.unread_seconds": 5}

CATALOGUE = (
    Incident(
        name="redis-away",
        strike=strikes.redis_away,
        alerts=("ScorestreamPartitionsHeld",),
        beside=SYMPTOMS,
        labels=(("reason", "redis"),),
        named=("`redis`", "is it there"),
        ready=("lane_held",),
    ),
    Incident(
        name="redis-full",
        strike=strikes.redis_full,
        alerts=("ScorestreamPartitionsHeld",),
        beside=SYMPTOMS,
        labels=(("reason", "redis"),),
        named=("full",),
        ready=("lane_held",),
    ),
    Incident(
        name="redis-away-best-effort",
        strike=strikes.redis_away,
        alerts=("ScorestreamRedisMisses",),
        named=("best_effort",),
        setting=Setting(settings={"redis.mode": "best_effort"}),
    ),
    Incident(
        name="results-refused",
        strike=strikes.results_refused,
        alerts=("ScorestreamPartitionsHeld",),
        beside=SYMPTOMS,
        labels=(("reason", "results_topic"),),
        named=("right to write",),
        ready=("lane_held",),
    ),
    Incident(
        name="dead-letters-refused",
        strike=strikes.dead_letters_refused,
        alerts=("ScorestreamPartitionsHeld",),
        beside=SYMPTOMS,
        labels=(("reason", "dead_letter_topic"),),
        named=("right to write",),
        ready=("lane_held",),
    ),
    Incident(
        name="broker-away",
        strike=strikes.broker_away,
        alerts=("ScorestreamBrokerAway",),
        beside=SYMPTOMS,
        named=("the broker is down",),
        ready=("broker_away",),
    ),
    Incident(
        name="password-changed",
        strike=strikes.password_changed,
        alerts=("ScorestreamRefusedByKafka",),
        beside=SYMPTOMS,
        labels=(("condition", "authentication_failed"),),
        named=("password", "refuses the user"),
        ready=("authentication_failed",),
    ),
    Incident(
        name="token-expired",
        strike=strikes.token_expired,
        alerts=("ScorestreamRefusedByKafka",),
        beside=SYMPTOMS,
        labels=(("condition", "authentication_failed"),),
        named=("refuses the token", "expired"),
        ready=("authentication_failed",),
        setting=Setting(credentials=Credentials.TOKEN),
    ),
    Incident(
        name="identity-provider-away",
        strike=strikes.provider_away,
        alerts=("ScorestreamRefusedByKafka",),
        beside=SYMPTOMS,
        labels=(("condition", "token_unavailable"),),
        named=("identity provider", "no token:"),
        ready=("token_unavailable",),
        setting=Setting(credentials=Credentials.TOKEN),
    ),
    Incident(
        name="requests-refused",
        strike=strikes.requests_refused,
        alerts=("ScorestreamRefusedByKafka",),
        beside=SYMPTOMS,
        labels=(("condition", "source_refused"),),
        named=("ACL",),
        ready=("source_refused",),
    ),
    Incident(
        name="group-refused",
        strike=strikes.group_refused,
        alerts=("ScorestreamRefusedByKafka",),
        beside=SYMPTOMS,
        labels=(("condition", "source_refused"),),
        named=("ACL",),
        ready=("source_refused",),
    ),
    Incident(
        name="partition-starved",
        strike=strikes.fetches_unanswered,
        alerts=("ScorestreamPartitionStarved",),
        beside=SYMPTOMS,
        labels=(("partition", "0"),),
        named=("its broker answers no fetch", "that broker hangs"),
        ready=("lane_starved",),
        setting=Setting(credentials=Credentials.NONE, settings=SOON_UNREAD),
    ),
    Incident(
        name="transaction-open",
        strike=strikes.transaction_open,
        alerts=("ScorestreamTransactionOpen",),
        beside=SYMPTOMS,
        labels=(("partition", "0"),),
        named=("find-hanging", "last stable offset"),
        ready=("transaction_open",),
        setting=Setting(settings=SOON_UNREAD),
    ),
    Incident(
        name="coordinator-slow",
        strike=strikes.commits_slow,
        alerts=("ScorestreamCommitsUnanswered",),
        beside=SYMPTOMS,
        named=("no refusal", "COORDINATOR"),
        ready=("commits_unanswered",),
        setting=Setting(credentials=Credentials.NONE),
    ),
    Incident(
        name="stuck-partition",
        strike=strikes.stuck,
        alerts=("ScorestreamPartitionStuck",),
        beside=AWAY | {"ScorestreamRestarts"},
        named=("offset",),
        ready=("lane_stuck",),
        live=("lane_stuck",),
        setting=Setting(settings={"health.stuck_seconds": 10}),
    ),
    Incident(
        name="engine-dies",
        strike=strikes.asked("!die"),
        alerts=("ScorestreamEngineDied", "ScorestreamDeadLetters"),
        named=("killed by the request that it had alone", "deadly request refused", "`inside`"),
        setting=Setting(settings={"engine.restart_period_seconds": 0.001}),
    ),
    Incident(
        name="engine-hangs",
        strike=strikes.asked("!hang"),
        alerts=("ScorestreamEngineDied", "ScorestreamDeadLetters"),
        beside=SYMPTOMS,
        named=("hung",),
        setting=Setting(settings={"engine.restart_period_seconds": 0.001, "engine.hang_seconds": 3}),
    ),
    Incident(
        name="engine-dies-twice",
        strike=strikes.asked("!die"),
        # Not of the engine's death: the scripted engine is back at once, and dies again before that is scraped.
        alerts=("ScorestreamExited", "ScorestreamDeadLetters"),
        beside=AWAY,
        named=("the second time", "leads to the request"),
    ),
    Incident(
        name="engine-dies-again-and-again",
        strike=strikes.poisoned_again_and_again,
        alerts=("ScorestreamRestarts", "ScorestreamEngineDied"),
        beside=AWAY,
        named=("the engine died twice",),
        ready=("not_running",),
    ),
    Incident(
        name="one-worker-of-several-dies",
        strike=processes.one_of_several_killed,
        alerts=("ScorestreamRestarts",),
        beside=SYMPTOMS,
        labels=(("worker", "1"),),
        ready=("worker_down",),
        setting=Setting(settings={"workers.count": 2}),
    ),
    Incident(
        name="one-worker-of-several-never-starts",
        strike=processes.one_of_several_never_starts,
        alerts=("ScorestreamStartTakesLong",),
        ready=("worker_starting",),
        setting=Setting(settings={"workers.count": 2}),
    ),
    Incident(
        name="bad-records",
        strike=strikes.flood(5, NONSENSE),
        alerts=("ScorestreamManyRefused", "ScorestreamDeadLetters"),
        named=("producer",),
    ),
    Incident(
        name="wrong-model",
        strike=strikes.another_model_asked,
        alerts=("ScorestreamBreakerOpen",),
        beside=SYMPTOMS,
        labels=(("code", "wrong_model"),),
        named=("`wrong_model`", "still held by the breaker"),
        ready=("lane_held",),
        setting=Setting(settings={"breaker.window_records": 50, "breaker.probe_seconds": 5}),
    ),
    Incident(
        name="rebalance-storm",
        strike=processes.strangers,
        alerts=("ScorestreamRebalanceStorm",),
        named=("strangers",),
    ),
    Incident(
        name="worker-killed",
        strike=processes.killed,
        alerts=("ScorestreamExited",),
        beside=AWAY,
        named=("short of memory",),
        setting=Setting(pods=2),
    ),
    Incident(
        name="worker-frozen",
        strike=processes.frozen,
        alerts=("ScorestreamDown",),
        named=("event loop",),
        ready=(SILENT,),
        live=(SILENT,),
        setting=Setting(pods=2),
    ),
    Incident(
        name="membership-lost",
        strike=processes.frozen_for_a_session,
        alerts=("ScorestreamMembershipLost",),
        beside=AWAY,
        named=("frozen",),
        setting=Setting(pods=2),
    ),
    Incident(
        name="event-loop-late",
        strike=processes.stuttering,
        alerts=("ScorestreamEventLoopLate",),
        named=("throttled",),
        setting=Setting(thresholds={"ScorestreamEventLoopLate": 0.3}),
    ),
    Incident(
        name="all-workers-gone",
        strike=processes.all_gone,
        alerts=("ScorestreamAbsent", "ScorestreamDown"),
        beside=SYMPTOMS,
        named=("pods",),
        ready=(SILENT,),
        live=(SILENT,),
    ),
    Incident(
        name="two-models",
        strike=processes.half_rolled_out,
        alerts=("ScorestreamTwoModels",),
        named=("roll-out",),
        setting=Setting(pods=2),
    ),
    Incident(
        name="lag-grows",
        strike=strikes.flood(60, Mix(good=b'{"id":"ID","task":"score","query":"q","document":"more"}')),
        alerts=("ScorestreamBehind", "ScorestreamRecordsOld"),
        named=("more pods",),
        setting=Setting(settings=SLOW_ENGINE, thresholds={"ScorestreamBehind": 15, "ScorestreamRecordsOld": 3}),
    ),
    Incident(
        name="deadlines-pass",
        strike=strikes.flood(
            60, Mix(good=b'{"id":"ID","task":"score","query":"q","document":"more","timeout_ms":1000}')
        ),
        alerts=("ScorestreamManyExpired",),
        named=("overload",),
        setting=Setting(settings=SLOW_ENGINE),
    ),
    Incident(
        name="retention-outran",
        strike=strikes.retention_outran,
        alerts=("ScorestreamRecordsLost",),
        beside=AWAY,
        named=("retention.ms",),
    ),
)
NAMES = tuple(incident.name for incident in CATALOGUE)


def named(name: str) -> Incident:
    """Raises KeyError."""
    return {incident.name: incident for incident in CATALOGUE}[name]
