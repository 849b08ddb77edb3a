"""Every request and response that we speak, at every version, against Kafka's message classes.

Our bytes mean to Kafka what we meant, and are the bytes that Kafka writes for the same message;
Kafka's bytes mean the same to us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from spark_kafka_sink.protocol.codec import decode, encode
from spark_kafka_sink.protocol.versions import ApiKey
from tests.golden.json_view import same
from tests.golden.jvm_messages import understand, versions
from tests.unit.protocol.entities import MESSAGES, entities

if TYPE_CHECKING:
    from tools.support.java import Jvm

QUICK = settings(
    max_examples=5,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("api", [api.name.lower() for api in ApiKey])
def test_kafka_and_we_mean_the_same(jvm: Jvm, api: str) -> None:
    checked = [check(jvm, entity_type) for entity_type in MESSAGES[api]]
    assert sum(checked) >= 2, "a request and a response"


def check(jvm: Jvm, entity_type: type[Any]) -> int:
    """Compare values of one class; 0 when Kafka no longer has this version, else 1."""
    name, version = entity_type.__name__, int(entity_type.__version__)
    lowest, highest = versions(jvm, name)
    if not lowest <= version <= highest:
        return 0

    @QUICK
    @given(entity=entities(entity_type))
    def run(entity: Any) -> None:
        ours = encode(entity)
        understood = understand(jvm, name, version, ours)
        assert understood.rest == 0
        same(entity, understood.fields, f"{name} v{version}")
        assert understood.again == ours
        assert decode(entity_type, understood.again) == (entity, len(ours))

    run()
    return 1
