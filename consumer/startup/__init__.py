"""What is looked at before the worker joins the group, and what each finding says. Pure: adapters bring the facts.

`scorestream check` prints every finding; `scorestream run` refuses to start when one of them is not ok.
"""

from consumer.startup.facts import (
    CLIENT_ID,
    Finding,
    GroupFacts,
    GroupMember,
    KafkaFacts,
    RedisFacts,
    RedisRefused,
    Right,
    TopicFacts,
    Unreachable,
    refuse,
)
from consumer.startup.kafka import CODECS, check_codecs, check_kafka, group_fix, group_taken
from consumer.startup.redis import check_prefix, check_redis, owner_key

__all__ = [
    "CLIENT_ID",
    "CODECS",
    "Finding",
    "GroupFacts",
    "GroupMember",
    "KafkaFacts",
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
    "owner_key",
    "refuse",
]
