"""Facts about the cluster and its topics, for the start-up checks. Creates nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from aiokafka.errors import KafkaError

from consumer.adapters.kafka_connection import client_options, refusals, refused_brokers
from consumer.adapters.kafka_rights import rights_and_group
from consumer.sections import KafkaSettings
from consumer.startup import CODECS, KafkaFacts, TopicFacts, Unreachable
from producer_tools.reading import codecs

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's own default of max.message.bytes, for brokers that do not let us read it."""

_READ_SECONDS = 15.0


def missing_codecs() -> list[str]:
    """Which of CODECS cannot be used in this environment: written by aiokafka, and read."""
    written = dict(zip(CODECS, (has_gzip(), has_snappy(), has_lz4(), has_zstd()), strict=True))
    unread = codecs.missing_codecs()
    return [codec for codec, usable in written.items() if not usable or codec in unread]


async def read_facts(kafka: KafkaSettings) -> KafkaFacts | Unreachable:
    """The cluster, or which address failed and how. Bounded; never raises for a broker that is not there."""
    if refused := await refusals(kafka):
        reasons, fixes = ([getattr(one, part) for one in refused] for part in ("found", "fix"))
        return Unreachable("; ".join(reasons), "; or ".join(dict.fromkeys(fixes)))
    admin = AIOKafkaAdminClient(**client_options(kafka), client_id="scorestream-check")
    try:
        async with asyncio.timeout(_READ_SECONDS):
            await admin.start()
            facts = await _describe(admin, kafka)
        missing_rights, group = await rights_and_group(kafka, facts.topics)
        return replace(facts, missing_rights=missing_rights, group=group)
    except (KafkaError, TimeoutError) as error:
        unreachable = await refused_brokers(kafka)
        reason = "; ".join(one.found for one in unreachable)
        return Unreachable(
            reason or f"{kafka.bootstrap_servers}: answers, and then fails with {error!r}",
            unreachable[0].fix if unreachable else "see the brokers' logs",
        )
    finally:
        await admin.close()


async def _describe(admin: AIOKafkaAdminClient, kafka: KafkaSettings) -> KafkaFacts:
    cluster = await admin.describe_cluster()
    # Asked for by name, a missing topic would be created where the broker allows it: so all are listed.
    described = {topic["topic"]: topic for topic in await admin.describe_topics()}
    wanted = (kafka.request_topic, kafka.result_topic, kafka.dead_letter_topic)
    present = [topic for topic in wanted if topic in described]
    configs = await _configs(admin, ConfigResourceType.TOPIC, present)
    broker_id = str(cluster["brokers"][0]["node_id"])
    broker = (await _configs(admin, ConfigResourceType.BROKER, [broker_id])).get(broker_id, {})
    return KafkaFacts(
        cluster_id=cluster["cluster_id"] or "unknown",
        topics={
            topic: TopicFacts(
                partitions=len(described[topic]["partitions"]),
                cleanup_policy=configs.get(topic, {}).get("cleanup.policy"),
                max_message_bytes=_integer(configs.get(topic, {}).get("max.message.bytes")),
            )
            for topic in present
        },
        min_session_timeout_ms=_integer(broker.get("group.min.session.timeout.ms")),
        max_session_timeout_ms=_integer(broker.get("group.max.session.timeout.ms")),
    )


async def _configs(admin: AIOKafkaAdminClient, kind: ConfigResourceType, names: list[str]) -> dict[str, dict[str, str]]:
    """Name -> configuration, without the names that the broker does not let us read."""
    if not names:
        return {}
    found: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs([ConfigResource(kind, name) for name in names]):
        for resource in response.to_object()["resources"]:
            if resource["error_code"] == 0:
                entries = resource["config_entries"]
                found[resource["resource_name"]] = {entry["config_names"]: entry["config_value"] for entry in entries}
    return found


def _integer(value: str | None) -> int | None:
    return None if value is None else int(value)
