"""Warnings about decisions of other runs that a driver cannot finish."""

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords, messages_of
from spark_kafka_sink.exactly_once.steps import recovery
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.transactional_id import Scope
from tests.support.decisions import decided
from tests.support.harness.scripted import ScriptedCluster, blocking_client


def test_warning_has_one_full_stop_after_a_hint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other, records = Scope.run("orders"), DecisionRecords("decisions")
    messages = messages_of(other, decided(1))
    records.add((offset, *message) for offset, message in enumerate(messages))
    error = BrokerUnavailableError("no response", hint="Check the brokers.")
    monkeypatch.setattr(recovery, "commit_other_scopes", lambda *_: {other: error})
    with blocking_client(ScriptedCluster()) as client:
        config = SinkConfig.parse({"kafka.bootstrap.servers": "localhost:1"})
        driver = ScopeClient(client, config, Scope.run("orders"))
        monkeypatch.setattr(driver.log, "read", lambda **_: records)
        recovery.recover_runs(driver)
    assert f"{other} was decided but could not be finished: no response" in caplog.text
    assert "Check the brokers. Its transactions" in caplog.text
