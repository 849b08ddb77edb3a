"""Options for exactly-once writes."""

import pytest

from spark_kafka_sink.config.exactly_once import (
    DeliveryGuarantee,
    ExactlyOnceConfig,
)
from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from tests.unit.config.parsing import config_error

SERVERS = {"kafka.bootstrap.servers": "a:1"}
EXACTLY_ONCE = {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "orders"}


def parse(options: dict[str, str]) -> ExactlyOnceConfig:
    return SinkConfig.parse(SERVERS | options).exactly_once


def failure(options: dict[str, str]) -> str:
    return config_error(SinkConfig.parse, SERVERS | options)


def test_default_is_at_least_once() -> None:
    assert parse({}) == parse({"deliveryGuarantee": "at-least-once"}) == ExactlyOnceConfig()
    assert not parse({}).is_enabled


def test_prefix_is_the_only_required_option() -> None:
    config = parse(EXACTLY_ONCE)
    assert config.is_enabled
    assert config == ExactlyOnceConfig(
        guarantee=DeliveryGuarantee.EXACTLY_ONCE, transactional_id_prefix="orders"
    )


def test_options_are_parsed() -> None:
    assert parse(
        EXACTLY_ONCE
        | {
            "batchId": "2026-11-20",
            "resetTransactionalState": "true",
            "decisionLogTopic": "decisions",
            "decisionLogReplicationFactor": "2",
            "decisionLogRetentionMs": "86400000",
            "kafka.transaction.timeout.ms": "90000",
        }
    ) == ExactlyOnceConfig(
        guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix="orders",
        batch_id="2026-11-20",
        reset_transactional_state=True,
        decision_log_topic="decisions",
        decision_log_replication_factor=2,
        decision_log_retention_ms=86_400_000,
        transaction_timeout_ms=90_000,
    )


def test_profile_java_uses_javas_transaction_timeout() -> None:
    assert parse(EXACTLY_ONCE | {"profile": "java"}).transaction_timeout_ms == 60_000


def test_exactly_once_requires_a_prefix() -> None:
    assert "transactionalIdPrefix is required" in failure({"deliveryGuarantee": "exactly-once"})


@pytest.mark.parametrize("prefix", ["", "a b", "a/b", "ü", "a\nb", "x" * 201])
def test_invalid_prefix_is_rejected(prefix: str) -> None:
    assert "option transactionalIdPrefix" in failure(
        EXACTLY_ONCE | {"transactionalIdPrefix": prefix or " "}
    )


@pytest.mark.parametrize("batch_id", ["", "a\tb", "x" * 201])
def test_invalid_batch_id_is_rejected(batch_id: str) -> None:
    assert "option batchId is" in failure(EXACTLY_ONCE | {"batchId": batch_id})


@pytest.mark.parametrize("options", [{"kafka.acks": "1"}, {"kafka.retries": "0"}])
def test_disabled_idempotence_conflicts_with_exactly_once(options: dict[str, str]) -> None:
    assert "requires an idempotent producer" in failure(EXACTLY_ONCE | options)
    off = {"kafka.enable.idempotence": "false"}
    assert "requires an idempotent producer" in failure(EXACTLY_ONCE | off)


@pytest.mark.parametrize(
    "options",
    [
        {"transactionalIdPrefix": "orders"},
        {"batchId": "1"},
        {"decisionLogTopic": "decisions"},
        {"resetTransactionalState": "true"},
        {"twoPhaseCommit": "true"},
    ],
)
def test_exactly_once_options_are_rejected_without_it(options: dict[str, str]) -> None:
    (name,) = options
    text = failure(options)
    assert f"option {name} is set, but deliveryGuarantee is at-least-once" in text


def test_one_transaction_for_a_whole_batch() -> None:
    assert not parse(EXACTLY_ONCE).atomic_batch
    atomic = EXACTLY_ONCE | {"atomicBatch": "true"}
    assert parse(atomic).atomic_batch
    others = {"twoPhaseCommit": "true", "errors.deadletterqueue.topic.name": "dead"}
    for name, value in others.items():
        text = failure(atomic | {"errors.tolerance": "all", name: value})
        assert f"atomicBatch and {name} conflict" in text


def test_two_phase_commit_has_no_timeout() -> None:
    assert parse(EXACTLY_ONCE | {"twoPhaseCommit": "true"}).two_phase_commit
    text = failure(
        EXACTLY_ONCE | {"twoPhaseCommit": "true", "kafka.transaction.timeout.ms": "90000"}
    )
    assert "twoPhaseCommit and kafka.transaction.timeout.ms conflict" in text


@pytest.mark.parametrize("topic", ["a b", "..", ""])
def test_decision_log_needs_a_valid_topic_name(topic: str) -> None:
    assert "option decisionLogTopic is" in failure(EXACTLY_ONCE | {"decisionLogTopic": topic})


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "events"},
        {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "events"},
    ],
)
def test_decision_topic_must_differ_from_the_topic(options: dict[str, str]) -> None:
    text = failure(EXACTLY_ONCE | {"decisionLogTopic": "events"} | options)
    assert "Use a separate topic for decisions" in text


@pytest.mark.parametrize("name", ["transactional.id", "transaction.two.phase.commit.enable"])
def test_java_option_names_suggest_those_of_the_sink(name: str) -> None:
    assert "with deliveryGuarantee=exactly-once" in failure({f"kafka.{name}": "x"})


def test_transaction_timeout_without_transactions_is_ignored() -> None:
    config = ProducerConfig.parse(SERVERS | {"kafka.transaction.timeout.ms": "5"})
    assert config == ProducerConfig.parse(SERVERS)


@pytest.mark.parametrize(
    ("value", "reset", "batch"),
    [("TRUE", True, None), ("false", False, None), ("17", False, "17"), ("007", False, "7")],
)
def test_reset_applies_to_a_new_query_or_one_batch(
    value: str, reset: bool, batch: str | None
) -> None:
    parsed = parse(EXACTLY_ONCE | {"resetTransactionalState": value})
    assert (parsed.reset_transactional_state, parsed.reset_batch) == (reset, batch)


@pytest.mark.parametrize("value", ["yes", "-1", "", "\u0663"])
def test_invalid_reset_is_rejected(value: str) -> None:
    assert "option resetTransactionalState is" in failure(
        EXACTLY_ONCE | {"resetTransactionalState": value}
    )
