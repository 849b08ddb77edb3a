"""All supported requests and responses, at every version, compared with Kafka's classes.

Kafka reads the same values and writes the same bytes; the package reads Kafka's bytes equally.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from spark_kafka_sink.kafka.protocol.message_format import decode, encode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.golden.json_view import assert_same
from tests.golden.jvm_messages import parse, versions
from tests.support.entities import MESSAGES, entities
from tools.support.java import Jvm

QUICK = settings(
    max_examples=5,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("api", [api.name.lower() for api in ApiKey])
def test_messages_match_kafka(jvm: Jvm, api: str) -> None:
    checked = [check(jvm, entity_type) for entity_type in MESSAGES[api]]
    assert sum(checked) >= 2, "a request and a response"


def check(jvm: Jvm, entity_type: type[Any]) -> int:
    """Compare values of one class; return 0 if Kafka no longer has this version, else 1."""
    name, version = entity_type.__name__, int(entity_type.__version__)
    lowest, highest = versions(jvm, name)
    if not lowest <= version <= highest:
        return 0

    @QUICK
    @given(entity=entities(entity_type))
    def run(entity: Any) -> None:
        ours = encode(entity)
        understood = parse(jvm, name, version, ours)
        assert understood.rest == 0
        assert_same(entity, understood.fields, f"{name} v{version}")
        assert understood.again == ours
        assert decode(entity_type, understood.again) == (entity, len(ours))

    run()
    return 1
