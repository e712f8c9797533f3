"""What is looked at before the worker joins the group, and what each finding says. Pure: adapters bring the facts.

`scorestream check` prints every finding; `scorestream run` logs the warnings, and refuses to start when a check fails.
"""

from consumer.finding import Finding, Level, refuse, worst
from consumer.startup.facts import (
    CLIENT_ID,
    GroupFacts,
    GroupMember,
    KafkaFacts,
    PrefixClaim,
    RedisFacts,
    RedisRefused,
    Right,
    TopicFacts,
    Unreachable,
)
from consumer.startup.kafka import CODECS, check_codecs, check_kafka, group_fix, group_taken
from consumer.startup.redis import check_prefix, check_redis

__all__ = [
    "CLIENT_ID",
    "CODECS",
    "Finding",
    "GroupFacts",
    "GroupMember",
    "KafkaFacts",
    "Level",
    "PrefixClaim",
    "RedisFacts",
    "RedisRefused",
    "Right",
    "TopicFacts",
    "Unreachable",
    "check_codecs",
    "check_kafka",
    "check_prefix",
    "check_redis",
    "group_fix",
    "group_taken",
    "refuse",
    "worst",
]
