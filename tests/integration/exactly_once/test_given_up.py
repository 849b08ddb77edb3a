"""A commit() that still runs when its driver has called abort() already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.log_state import Done, Nothing
from tests.integration.exactly_once.writing import PARTITIONS, QUERY, rows_of, stream
from tests.support.kafka.admin import Admin

if TYPE_CHECKING:
    from spark_kafka_sink import EmbeddedBroker
    from tests.support.kafka.broker import KafkaCluster


@pytest.mark.parametrize("batch", ["0", "1"])
def test_what_abort_has_given_up_is_never_decided(
    any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str, batch: str
) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    query = stream(any_kafka.bootstrap_servers, unique_topic, f"p-{unique_topic}")
    before = ["0"] if batch == "1" else []
    for each in before:
        query.committer.commit(each, query.tasks(each))
    results = query.tasks(batch, nonce="0123456789abcdef")
    query.committer.abort(batch, results, complete=True)
    marks = ("0123456789abcdef",)
    marked = Done(QUERY, "0", (), marks) if before else Nothing(marks)
    assert query.committer.recover() == marked
    with pytest.raises(TransactionError, match=r"refused: abort\(\) was called"):
        query.committer.commit(batch, results)
    query.committer.commit(batch, query.tasks(batch))
    assert query.committer.recover() == Done(QUERY, batch)
    assert query.visible() == rows_of(*before, batch)
