"""Invalid client configurations fail quickly with an error that describes the cause."""

import time

import pytest

from tests.support.producer_writes import numbered, produce
from tests.support.security.failure_cases import FAILURE_CASES, FailureCase
from tests.support.security.secured_kafka import SecuredKafka
from tools.support.readers import count

FAILURE_LIMIT_S = 30
"""Seconds; the delivery timeout is two minutes, the metadata timeout one minute."""


@pytest.mark.parametrize("case", FAILURE_CASES, ids=lambda case: case.name)
def test_error_describes_the_cause(kafka: SecuredKafka, topic: str, case: FailureCase) -> None:
    options = case.client.java_options(kafka)
    started = time.monotonic()
    with pytest.raises(case.error) as caught:
        produce(kafka.servers(case.listener), numbered(topic, 0, 10, 1), **options)
    took = time.monotonic() - started
    missing = [words for words in case.expected if words not in str(caught.value)]
    assert not missing, str(caught.value)
    assert took < FAILURE_LIMIT_S
    assert count(kafka.bootstrap_servers, topic) == 0
