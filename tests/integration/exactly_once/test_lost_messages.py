"""Lost requests and responses of the driver are retried or detected as executed."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ConfigError,
    KafkaProdError,
)
from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus
from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.scope_state import NoDecision
from spark_kafka_sink.exactly_once.steps.commit import commit_batch
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.transactional_id import Scope
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from tests.integration.exactly_once.seeded.plan import DRIVER_APIS
from tests.integration.exactly_once.simulated_writes import (
    PARTITIONS,
    QUERY,
    Writes,
    batch_job,
    rows_of,
    stream,
    transactions_of,
)
from tests.integration.exactly_once.stepped_client import crash

QUICK = {
    "kafka.request.timeout.ms": "300",
    "kafka.delivery.timeout.ms": "60000",
    "kafka.retry.backoff.ms": "10",
}


@pytest.fixture
def query(broker: EmbeddedBroker, unique_topic: str) -> Iterator[Writes]:
    """Return a stream whose batch 0 is committed."""
    broker.create_topic(unique_topic, PARTITIONS)
    writes = stream(broker.bootstrap_servers, unique_topic, f"p-{unique_topic}", **QUICK)
    writes.committer.commit("0", writes.tasks("0"))
    yield writes
    broker.faults.clear()


@pytest.mark.parametrize("effect", ["lose-request", "lose-response", "close"])
@pytest.mark.parametrize("api", DRIVER_APIS)
def test_lost_message_is_retried(
    broker: EmbeddedBroker, query: Writes, api: str, effect: str
) -> None:
    results = query.tasks("1")
    broker.faults.add(f"{api}:{effect}:next=1")
    assert query.committer.commit("1", results).status in {
        CommitStatus.COMMITTED,
        CommitStatus.ROLLED_FORWARD,  # from the decision, whose append got no response
    }
    broker.faults.clear()
    assert query.visible() == rows_of("0", "1")


@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("effect", ["lose-response", "error=NOT_COORDINATOR"])
def test_each_end_txn_is_retried(
    broker: EmbeddedBroker, query: Writes, after: int, effect: str
) -> None:
    """The first EndTxn is that of the decision, then three of tasks, then that of `done`."""
    results = query.tasks("1")
    broker.faults.add(f"end_txn:{effect}:next=2:after={after}")
    query.committer.commit("1", results)
    broker.faults.clear()
    query.committer.commit("2", query.tasks("2"))
    assert query.visible() == rows_of("0", "1", "2")


class UnresponsiveClient(ScopeClient):
    """Receives no response to the first EndTxn requests."""

    deaf = True

    def commit(
        self, transactions: Sequence[TransactionalProducer], deadline: float
    ) -> dict[str, int]:
        """See `ScopeClient`."""
        if self.deaf:
            self.deaf = False
            late = ErrorCode.coordinator_load_in_progress
            return {transaction.transactional_id: late for transaction in transactions}
        return super().commit(transactions, deadline)


def test_waiting_for_a_decision_is_logged(query: Writes, caplog: pytest.LogCaptureFixture) -> None:
    tasks = [task.transaction for task in query.tasks("1") if task.transaction is not None]
    with borrowed_client(query.config.producer) as client:
        scope_client = UnresponsiveClient(client, query.config, query.scope)
        commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="1"), tasks)
    assert (
        f"batch 1 of {query.scope} is decided, but EndTxn has not succeeded for 3 of 3 "
        "transactions (errors: COORDINATOR_LOAD_IN_PROGRESS (3); for example, transaction p-"
    ) in caplog.text
    assert query.visible() == rows_of("0", "1")


class LoginFailingClient(ScopeClient):
    """The login fails for some time before EndTxn; between failures, requests are not sent."""

    failures = 3
    error: KafkaProdError = AuthenticationError("the password is wrong")

    def commit(
        self, transactions: Sequence[TransactionalProducer], deadline: float
    ) -> dict[str, int]:
        """See `ScopeClient`."""
        if self.failures == 0:
            return super().commit(transactions, deadline)
        self.failures -= 1
        if self.failures % 2:
            unsent = int(ClientErrorCode.not_sent)
            return {transaction.transactional_id: unsent for transaction in transactions}
        self.client.failures.fatal = self.error
        self.client.pause(0.2, None)
        raise AssertionError("the client did not raise its fatal error")


@pytest.mark.parametrize(
    "error", [AuthenticationError("the password is wrong"), ConfigError("the file is missing")]
)
def test_failed_login_after_the_decision_is_retried(
    query: Writes, caplog: pytest.LogCaptureFixture, error: KafkaProdError
) -> None:
    tasks = transactions_of(query.tasks("1"))
    with borrowed_client(query.config.producer) as client:
        scope_client = LoginFailingClient(client, query.config, query.scope)
        scope_client.error = error
        commit_batch(scope_client, BatchWrite(query_id=QUERY, batch="1"), tasks)
    assert (
        f"batch 1 of {query.scope} is decided, but the login fails; the login is retried: {error}"
        in caplog.text
    )
    assert query.visible() == rows_of("0", "1")


def test_failing_login_after_the_decision_ends_the_commit(query: Writes) -> None:
    limited = stream(
        query.bootstrap_servers,
        query.topic,
        query.scope.prefix,
        **QUICK | {"kafka.max.block.ms": "1000"},
    )
    results = limited.tasks("1")
    with borrowed_client(limited.config.producer) as client:
        scope_client = LoginFailingClient(client, limited.config, limited.scope)
        scope_client.failures = 60
        with pytest.raises(AuthenticationError):
            commit_batch(
                scope_client, BatchWrite(query_id=QUERY, batch="1"), transactions_of(results)
            )
    assert 30 < scope_client.failures < 60
    assert query.committer.abort("1", results, complete=True).status is CommitStatus.ROLLED_FORWARD
    assert query.visible() == rows_of("0", "1")


@pytest.mark.parametrize("effect", ["lose-response", "lose-request"])
def test_abort_finds_an_unacknowledged_decision(
    broker: EmbeddedBroker, query: Writes, effect: str
) -> None:
    impatient = stream(
        query.bootstrap_servers,
        query.topic,
        query.scope.prefix,
        **QUICK | {"kafka.max.block.ms": "1500"},
    )
    results = impatient.tasks("1")
    broker.faults.add(f"end_txn:{effect}:next=20")
    with pytest.raises(BrokerUnavailableError):
        impatient.committer.commit("1", results)
    broker.faults.clear()
    outcome = query.committer.abort("1", results, complete=True)
    decided = effect == "lose-response"
    assert outcome.status is (CommitStatus.ROLLED_FORWARD if decided else CommitStatus.ABORTED)
    assert query.visible() == (rows_of("0", "1") if decided else rows_of("0"))
    query.committer.commit("1", query.tasks("1"))
    assert query.visible() == rows_of("0", "1")


@pytest.mark.parametrize("effect", ["lose-response", "lose-request", "error=NOT_COORDINATOR"])
def test_incomplete_decision_of_another_run_does_not_block_planning(
    broker: EmbeddedBroker, query: Writes, caplog: pytest.LogCaptureFixture, effect: str
) -> None:
    """Planning completes within max.block.ms, and the decision of the other run is completed."""
    prefix, limit = f"r-{query.topic}", {"kafka.max.block.ms": "2000"}
    runs = [batch_job(query.bootstrap_servers, query.topic, Scope.run(prefix)) for _ in range(2)]
    for run in runs:
        crash(run, "x", "after decide")
    stuck = [f"{prefix}/run/{run.scope.name}" for run in runs]
    broker.faults.add(f"end_txn:{effect}:next=1000")
    job = batch_job(query.bootstrap_servers, query.topic, Scope.run(prefix))
    job = replace(job, options=QUICK | limit)
    started = time.monotonic()
    assert job.committer.recover() == NoDecision()
    assert time.monotonic() - started < 30  # unless it waits for the responses
    for name in stuck:
        assert f"{name}/" in caplog.text
    assert f"`kafkaprod transactions commit --prefix {prefix} " in caplog.text
    broker.faults.clear()
    assert job.committer.recover() == NoDecision()
    expected = rows_of("0") + Counter(dict.fromkeys(rows_of("x"), 2))
    assert query.visible() == expected
