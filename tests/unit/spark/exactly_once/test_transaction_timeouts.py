"""Transaction timeouts, and when they are too short."""

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskResult, TaskTransaction
from spark_kafka_sink.kafka.protocol.transactions import (
    NO_TIMEOUT_MS,
    TransactionalProducer,
    TransactionVersion,
)
from spark_kafka_sink.spark.exactly_once import transaction_timeouts as timeouts
from spark_kafka_sink.spark.exactly_once.transaction_timeouts import (
    broker_cap_ms,
    oldest,
    transaction_timeout_ms,
    warn_of_long_transactions,
)
from tests.support.clock import ManualClock

EMPTY = TaskResult(outcome=TaskOutcome.EMPTY, query_id=None, batch="b")


def written(started_ms: int, timeout_ms: int = 60_000) -> TaskResult:
    transaction = TaskTransaction(
        transaction=TransactionalProducer(
            transactional_id="t", producer_id=1, epoch=0, version=TransactionVersion.V2
        ),
        started_ms=started_ms,
        timeout_ms=timeout_ms,
    )
    return TaskResult(
        outcome=TaskOutcome.WRITTEN, query_id=None, batch="b", transaction=transaction
    )


def test_transaction_closest_to_its_timeout_counts() -> None:
    results = [written(90_000), written(70_000), EMPTY, written(10_000, 900_000)]
    assert oldest(results, 100_000) == (0.5, 30_000, 60_000)
    assert oldest([EMPTY], 100_000) == (0.0, 0, 0)


def test_warning_at_half_of_the_timeout(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_long_transactions("micro-batch 7", [written(71_000)], 100_000)
    assert not caplog.records
    warn_of_long_transactions("micro-batch 7", [written(70_000)], 100_000)
    assert caplog.messages[0].startswith(
        "micro-batch 7: its oldest transaction was open for 30 s of the 60 s"
    )


def sink_config(servers: str = "unreachable:9092", **more: str) -> SinkConfig:
    return SinkConfig.parse(
        {
            "kafka.bootstrap.servers": servers,
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": "orders",
            **{name.replace("__", "."): value for name, value in more.items()},
        }
    )


def test_timeout_too_short_for_a_safe_decision_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "broker_cap_ms", lambda _: 900_000)
    assert transaction_timeout_ms(sink_config()) == 900_000
    assert transaction_timeout_ms(sink_config(profile="java")) == 60_000
    with pytest.raises(ConfigError, match=r"59999; .* 60000") as caught:
        transaction_timeout_ms(sink_config(kafka__transaction__timeout__ms="59999"))
    assert str(caught.value).endswith("remove it to use the brokers' maximum.")
    short = {"kafka__transaction__timeout__ms": "20000", "atomicBatch": "true"}
    assert transaction_timeout_ms(sink_config(**short)) == 20_000  # a single EndTxn is the decision
    monkeypatch.setattr(timeouts, "broker_cap_ms", lambda _: 30_000)
    assert transaction_timeout_ms(sink_config(twoPhaseCommit="true")) == NO_TIMEOUT_MS
    for more in ({}, {"kafka__transaction__timeout__ms": "20000"}):
        with pytest.raises(ConfigError, match=r"transaction\.max\.timeout\.ms"):
            transaction_timeout_ms(sink_config(**more))


def test_maximum_of_the_brokers_is_requested_again_after_a_minute() -> None:
    clock = ManualClock()
    with EmbeddedBroker(transaction_max_timeout_ms=700_000) as kafka:
        port = kafka.nodes[0].port
        config = sink_config(kafka.bootstrap_servers).producer
        assert broker_cap_ms(config, clock) == 700_000
    with EmbeddedBroker(port=port, transaction_max_timeout_ms=800_000):
        clock.advance(59)
        assert broker_cap_ms(config, clock) == 700_000
        clock.advance(1)
        assert broker_cap_ms(config, clock) == 800_000
