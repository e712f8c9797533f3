"""Rights in Kafka, as `check` finds them."""

import pytest
from aiokafka.protocol.admin import CreateAclsRequest

from consumer.adapters.kafka_topics import read_facts
from consumer.sections import KafkaSettings
from consumer.startup import KafkaFacts, Right
from producer_tools.connections.settings import SaslMechanism
from tests.services.acls import ALLOW, DESCRIBE, EVERYWHERE, LITERAL, TOPIC, documented_rules, grant
from tests.services.kafka import create_topics
from tests.services.reading import read_topic
from tests.services.secured_kafka import USER, SecuredKafka

pytestmark = pytest.mark.kafka


async def test_what_the_brokers_refuse_is_found_without_leaving_a_trace(secured_kafka: SecuredKafka) -> None:
    names = {name: f"rights.{name}" for name in ("score.requests", "score.results", "score.dead", "scorestream")}
    *topics, group = names.values()
    await create_topics(secured_kafka.bootstrap_servers, dict.fromkeys(topics, 1))
    brokers = secured_kafka.brokers(SaslMechanism.PLAIN)
    kafka = KafkaSettings(
        bootstrap_servers=brokers.bootstrap_servers,
        security=brokers.security,
        request_topic=topics[0],
        result_topic=topics[1],
        dead_letter_topic=topics[2],
        group_id=group,
    )
    assert await missing(kafka) == {Right("Read", "group", group)}
    described = [
        CreateAclsRequest(TOPIC, topic, LITERAL, f"User:{USER}", EVERYWHERE, DESCRIBE, ALLOW) for topic in topics
    ]
    await grant(secured_kafka.bootstrap_servers, described)
    assert await missing(kafka) == {
        Right("Read", "topic", topics[0]),
        Right("Write", "topic", topics[1]),
        Right("Write", "topic", topics[2]),
        Right("Read", "group", group),
    }
    await grant(secured_kafka.bootstrap_servers, documented_rules(USER, names))
    assert await missing(kafka) == set()
    for topic in topics:
        assert await read_topic(secured_kafka.bootstrap_servers, topic, 0) == []


async def missing(kafka: KafkaSettings) -> set[Right]:
    facts = await read_facts(kafka)
    assert isinstance(facts, KafkaFacts)
    return set(facts.missing_rights)
