"""The codec reads what kio writes: every message class in every version."""

from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from spark_kafka_sink.kafka.protocol.codec import decode, encode
from tests.unit.kafka.protocol.entities import MESSAGES, entities

QUICK = settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_reads_what_kio_writes(name: str) -> None:
    for entity_type in MESSAGES[name]:
        check(entity_type)


def check(entity_type: type[Any]) -> None:
    @QUICK
    @given(entity=entities(entity_type), before=st.binary(max_size=3))
    def run(entity: Any, before: bytes) -> None:
        buffer = BytesIO()
        entity_writer(entity_type)(buffer, entity)
        data = before + buffer.getvalue() + b"\xff behind"
        assert decode(entity_type, data, len(before)) == (entity, len(data) - len(b"\xff behind"))
        assert encode(entity) == buffer.getvalue()

    run()


def test_every_api_version_is_covered() -> None:
    versions = {t.__version__ for t in MESSAGES["produce"]}
    assert versions == set(range(3, 14))
    assert sum(map(len, MESSAGES.values())) >= 600
