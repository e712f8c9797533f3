"""What a client of Kafka says of why the broker is of no use."""

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaTimeoutError

from consumer.adapters.kafka_connection import Hindrances, NotConnected
from consumer.errors import Hindrance
from producer_tools.connections.refusal import NoToken, Refusal, Unreachable

AWAY = Unreachable("a:9092: Connection refused", "start the broker")
TOKENLESS = NoToken("b:9092: no token: away", "see to it")
UNKNOWN = Refusal("c:9092: refuses the user worker", "set kafka.security.username")


@pytest.mark.parametrize(
    ("refused", "hindrance"),
    [
        ([AWAY, AWAY], Hindrance.BROKER_AWAY),
        ([AWAY, TOKENLESS], Hindrance.TOKEN_UNAVAILABLE),
        ([AWAY, UNKNOWN], Hindrance.AUTHENTICATION_FAILED),
    ],
)
def test_one_address_that_answers_says_what_is_wrong(refused: list[Refusal], hindrance: Hindrance) -> None:
    hindrances = Hindrances()
    hindrances.note("connecting", NotConnected(refused))
    assert hindrances.told() == {hindrance: f"{refused[0].found}; {refused[1].found}"}
    hindrances.note("connecting", None)
    assert hindrances.told() == {}


def test_what_a_client_that_is_not_connected_cannot_do_is_not_told_as_a_refusal() -> None:
    hindrances = Hindrances()
    hindrances.note("reading", KafkaTimeoutError())
    hindrances.note("connecting", NotConnected([UNKNOWN]))
    assert set(hindrances.told()) == {Hindrance.AUTHENTICATION_FAILED}


def test_all_that_is_refused_is_told_in_the_brokers_words() -> None:
    hindrances = Hindrances()
    hindrances.note("group", GroupAuthorizationFailedError("scorestream"))
    hindrances.note("reading", KafkaTimeoutError())
    assert hindrances.told() == {
        Hindrance.SOURCE_REFUSED: "group: GroupAuthorizationFailedError('scorestream'); reading: KafkaTimeoutError()"
    }
