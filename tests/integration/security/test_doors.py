"""Every door: a foreign client enters with its options, and so does our producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.security.load import numbers
from tests.integration.support.producing import numbered, produce
from tests.support.security.doors import DOORS, Door
from tests.support.security.entering import write_with_confluent

if TYPE_CHECKING:
    from tests.support.security.secured import SecuredKafka

ROWS = 2_000
_FIRST = {door.listener: door for door in reversed(DOORS)}
"""The first door of each listener, which `make test` tries."""
_PARAMS = [
    pytest.param(door, id=door.name, marks=[pytest.mark.deep] * (door != _FIRST[door.listener]))
    for door in DOORS
]


@pytest.mark.deep
@pytest.mark.parametrize(
    "door", [door for door in DOORS if door.librdkafka is not None], ids=lambda door: door.name
)
def test_a_foreign_client_enters(kafka: SecuredKafka, topic: str, door: Door) -> None:
    values = [b"%d" % number for number in range(10)]
    write_with_confluent(door.confluent_options(kafka), topic, values)
    assert numbers(kafka, topic) == list(range(10))


@pytest.mark.parametrize("door", _PARAMS)
def test_our_producer_enters(kafka: SecuredKafka, topic: str, door: Door) -> None:
    chunk = numbered(topic, 0, ROWS, 3)
    report = produce(kafka.servers(door.listener), chunk, **door.java_options(kafka))
    assert report.persisted == ROWS
    assert numbers(kafka, topic) == list(range(ROWS))
