"""A session in a transaction from FindCoordinator to the last acknowledgement, with V1 and V2."""

from collections.abc import Iterator
from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    DeliveryError,
    ProtocolError,
    TransactionError,
)
from spark_kafka_sink.kafka.client.backoff import RetryTimer
from spark_kafka_sink.kafka.client.closed_connections import ClosedConnections
from spark_kafka_sink.kafka.client.request import Completion
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.producer.send import drainer
from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager
from spark_kafka_sink.producer.transactions.transaction_partitions import TransactionPartitions
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.harness.coordinator import HANDLERS, CoordinatorFault, FakeCoordinator
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import tolerant
from tests.unit.producer.transactions.transactional_session import (
    ADD,
    FIND,
    ID,
    INIT,
    LOST,
    SETTINGS,
    UNAVAILABLE,
    UNDONE,
    cluster,
    is_v2,
)


def headers(sim: World) -> list[BatchHeader]:
    return [BatchHeader.parse(data) for seen in sim.cluster.seen for data in seen.batches.values()]


def test_records_are_written_in_an_open_transaction(sim: World) -> None:
    values = sim.deliver_batches(3)
    known = sim.cluster.coordinator.transactions[ID]
    assert sim.session.flush_transaction() == TransactionalProducer(
        transactional_id=ID,
        producer_id=known.producer_id,
        epoch=0,
        version=TransactionVersion.V2 if is_v2(sim) else TransactionVersion.V1,
    )
    assert known.state == "Ongoing"
    assert known.timeout_ms == 60_000
    assert known.partitions == {("t", 0)}
    assert sim.cluster.logs["t", 0].values() == values
    assert all(header.is_transactional for header in headers(sim))
    assert {seen.transactional_id for seen in sim.cluster.seen} == {ID}
    assert {seen.version for seen in sim.cluster.seen} == ({13} if is_v2(sim) else {11})
    assert len(sim.cluster.coordinator.requests_for(ADD)) == (0 if is_v2(sim) else 1)
    assert sim.session.transaction_started_ms is not None
    sim.check_accounting()


def test_session_without_rows_requests_nothing(sim: World) -> None:
    sim.steps(20)
    sim.session.flush()
    assert sim.session.flush_transaction() is None
    assert sim.cluster.coordinator.requests == []


def test_partitions_are_added_in_one_request(sim: World) -> None:
    for partition in (0, 1, 3):
        sim.send([b"v"], partition)
    sim.finish()
    requests = sim.cluster.coordinator.requests_for(ADD)
    if is_v2(sim):
        assert requests == []
    else:
        (request,) = requests
        (topic,) = request.v3_and_below_topics
        assert (topic.name, sorted(topic.partitions)) == ("t", [0, 1, 3])
    assert sim.cluster.coordinator.transactions[ID].partitions == {("t", 0), ("t", 1), ("t", 3)}


@pytest.mark.parametrize("batches", [1, 3])
def test_keyless_rows_add_only_the_partitions_that_they_need(sim: World, batches: int) -> None:
    values = sim.deliver_batches(batches, None)
    partitions = sim.cluster.coordinator.transactions[ID].partitions
    written = {topic_partition for topic_partition, log in sim.cluster.logs.items() if log.end}
    assert partitions == written
    log_values = [value for log in sim.cluster.logs.values() for value in log.values()]
    assert sorted(log_values, key=str) == sorted(values, key=str)


def test_many_keyless_rows_use_every_partition(sim: World) -> None:
    values = sim.deliver_batches(40, None)
    assert all(log.end for log in sim.cluster.logs.values())
    assert sum(log.end for log in sim.cluster.logs.values()) == len(values)


def partitions_of(sim: World) -> TransactionPartitions:
    assert sim.sender.drainer.transaction_manager is not None
    return sim.sender.drainer.transaction_manager.partitions


@pytest.fixture
def v1_sim() -> Iterator[World]:
    """A session with a producer id in a V1 transaction, and the unused topic `t`."""
    fake_cluster = FakeCluster(topics={"t": 10, "u": 1})
    fake_cluster.coordinator.version = 0
    with world(fake_cluster, transaction=SETTINGS) as open_world:
        open_world.deliver_batches(1, topic="u")
        yield open_world


def drain(sim: World, drawn: list[int]) -> tuple[list[int], int]:
    """Drain with the partitions in this order; return those drained and the number to be added."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drainer, "draw_order", lambda *_: iter(drawn))
        result = sim.sender.drainer.drain(sim.clock.monotonic())
    partitions_of(sim).request(result.new_partitions)
    drained = [batch for batches in result.requests.values() for batch in batches]
    return [batch.state.topic_partition.partition for batch in drained], len(result.new_partitions)


def test_one_batch_adds_one_partition(v1_sim: World) -> None:
    v1_sim.send_batches(1, None)
    v1_sim.close_batches()
    partitions = partitions_of(v1_sim)
    assert drain(v1_sim, [7, 3, 5]) == ([], 1)
    assert drain(v1_sim, [5, 7, 3]) == ([], 0)
    partitions.mark_added(*partitions.take_new())
    assert drain(v1_sim, [5, 3, 7]) == ([7], 0)


def test_partitions_are_added_in_drawing_order(v1_sim: World) -> None:
    v1_sim.send_batches(3, None)
    v1_sim.close_batches()
    partitions = partitions_of(v1_sim)
    assert drain(v1_sim, list(range(10))) == ([], 3)
    for partition in partitions.take_new():
        partitions.mark_added(partition)
        partitions.mark_used([partition])
    assert drain(v1_sim, [2, 9, 1, 8]) == ([2, 1], 1)


@pytest.mark.parametrize("api", [FIND, INIT, ADD])
@pytest.mark.parametrize(
    "trouble",
    [
        LOST,
        UNDONE,
        CoordinatorFault(error=ErrorCode.request_timed_out),
        *(CoordinatorFault(error=code) for code in UNAVAILABLE),
        CoordinatorFault(error=ErrorCode.concurrent_transactions),
    ],
    ids=["response lost", "request lost", "7", "14", "15", "16", "51"],
)
def test_each_step_is_retried(sim: World, api: ApiKey, trouble: CoordinatorFault) -> None:
    faults = [trouble] if trouble.lose else [trouble, trouble]
    sim.cluster.coordinator.faults[api].extend(faults)
    values = sim.deliver_batches(8)
    assert sim.cluster.logs["t", 0].values() == values
    transaction = sim.session.flush_transaction()
    known = sim.cluster.coordinator.transactions[ID]
    assert transaction is not None
    assert (transaction.producer_id, transaction.epoch) == (known.producer_id, known.epoch)
    assert transaction.epoch == int(api is INIT and trouble is LOST)
    sim.check_accounting()


def test_two_rejected_partitions_of_one_response_back_off_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = [ErrorCode.coordinator_load_in_progress, ErrorCode.unknown_topic_or_partition]
    add, back_off, delays = FakeCoordinator.add, RetryTimer.back_off, 0

    def reject_each(self: FakeCoordinator, version: int, request: Any, _: int | None) -> Any:
        responses = [add(self, version, request, code) for code in codes]
        results = [response["results_by_topic_v3_and_below"][0] for response in responses]
        monkeypatch.setitem(HANDLERS, ADD, add)
        partitions = [result["results_by_partition"] for result in results]
        mixed = [codes[index % 2] for index, codes in enumerate(zip(*partitions, strict=True))]
        return {"results_by_topic_v3_and_below": [{**results[0], "results_by_partition": mixed}]}

    def count(self: RetryTimer, now: float) -> None:
        nonlocal delays
        delays += 1
        back_off(self, now)

    monkeypatch.setitem(HANDLERS, ADD, reject_each)
    monkeypatch.setattr(RetryTimer, "back_off", count)
    with world(cluster(0), transaction=SETTINGS) as sim:
        values = [sim.send_batches(1, partition) for partition in (0, 1)]
        sim.finish()
        assert [sim.cluster.logs["t", partition].values() for partition in (0, 1)] == values
        assert len(sim.cluster.coordinator.requests_for(ADD)) == 2
        assert delays == 1


@pytest.mark.parametrize("api", [FIND, INIT, ADD])
def test_second_closed_connection_is_an_error_that_names_the_api(api: ApiKey) -> None:
    with world(cluster(0), transaction=SETTINGS) as sim:
        sim.cluster.coordinator.faults[api].extend([UNDONE] * 9)
        sim.send_batches(8)
        began = sim.clock.monotonic()
        with pytest.raises(ProtocolError, match=f"closed the connection twice .* {api.name}"):
            sim.finish()
        assert sim.clock.monotonic() < began + 2
        assert len(sim.cluster.coordinator.requests_for(api)) == 2 or api is FIND


@pytest.mark.parametrize("api", [FIND, INIT])
def test_closed_connections_of_a_broker_that_restarts_are_retried(api: ApiKey) -> None:
    with world(cluster(2), transaction=SETTINGS) as sim:
        faults = sim.cluster.coordinator.faults[api]
        faults.append(UNDONE)
        values = sim.send_batches(8)
        while faults:
            sim.steps(1)
        sim.cluster.stop(1)
        sim.steps(50)
        sim.cluster.alive.add(1)
        faults.append(UNDONE)
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == values


def test_connection_closed_on_an_older_request_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker processes the requests of a connection in order."""
    failed: list[Completion] = []
    record = ClosedConnections.record

    def store(closed: ClosedConnections, completion: Completion) -> None:
        failed.extend([completion] if completion.failure else [])
        record(closed, completion)

    monkeypatch.setattr(ClosedConnections, "record", store)
    with world(cluster(0), transaction=SETTINGS) as sim:
        sim.deliver([b"0"], 0)
        sim.fault(Fault(lose=True))
        for partition in (0, 1):  # AddPartitionsToTxn for partition 1 follows the lost Produce
            sim.send([b"1"], partition)
            sim.sender.run_once()
        sim.finish()
    (added,) = failed
    assert added.request.api is ADD
    closed = ClosedConnections()
    for _ in range(3):
        closed.record(added)
    closed.record(added._replace(is_oldest=True))
    with pytest.raises(ProtocolError, match="closed the connection twice"):
        closed.record(added._replace(is_oldest=True))


@pytest.mark.parametrize("version", [0, 2])
def test_moved_coordinator_is_found_again(version: int) -> None:
    brokers = cluster(version, nodes=3)
    brokers.coordinator.node = 2
    with world(brokers, transaction=SETTINGS) as sim:
        sim.deliver([b"1"], 0)
        brokers.coordinator.node = 3
        sim.deliver([b"2"], 1)
        nodes = [node for node, api in brokers.requests if api in {INIT, ADD}]
        assert nodes == ([2] if version == 2 else [2, 2, 2, 3])
        assert sim.session.flush_transaction() is not None


@pytest.mark.parametrize("version", [0, 2])
def test_stopped_coordinator_is_looked_up_again(version: int) -> None:
    brokers = cluster(version, nodes=3)
    brokers.coordinator.node = 2
    brokers.still_listed.add(2)
    brokers.stop(2)
    for (_, partition), log in brokers.logs.items():
        log.leader = 1 + 2 * (partition % 2)
    with world(brokers, transaction=SETTINGS) as sim:
        sim.send([b"1"], 0)
        sim.steps(50)
        brokers.coordinator.node = 3
        sim.finish()
        assert sim.session.flush_transaction() is not None


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        (
            CoordinatorFault(error=ErrorCode.invalid_transaction_timeout),
            "transaction.max.timeout.ms",
        ),
        (
            CoordinatorFault(error=ErrorCode.transactional_id_authorization_failed),
            f"--transactional-id {ID}",
        ),
        (CoordinatorFault(error=ErrorCode.producer_fenced), "PRODUCER_FENCED"),
        (CoordinatorFault(error=ErrorCode.invalid_producer_epoch), "INVALID_PRODUCER_EPOCH"),
        (CoordinatorFault(error=ErrorCode.unsupported_version), "UNSUPPORTED_VERSION"),
        (CoordinatorFault(error=ErrorCode.unknown_server_error), "UNKNOWN_SERVER_ERROR"),
    ],
    ids=str,
)
def test_coordinator_errors_fail_the_session(
    sim: World, trouble: CoordinatorFault, text: str
) -> None:
    sim.cluster.coordinator.faults[INIT].append(trouble)
    sim.send_batches(2)
    with pytest.raises(DeliveryError, match=text) as caught:
        sim.finish()
    assert ID in str(caught.value)
    with pytest.raises(DeliveryError):
        sim.session.flush_transaction()
    assert not sim.cluster.seen


@pytest.mark.parametrize("api", [FIND, INIT], ids=str)
def test_permission_is_named_for_the_prefix(api: ApiKey) -> None:
    settings = TransactionSettings(transactional_id=ID, timeout_ms=60_000, id_prefix="prefix-")
    with world(cluster(2), transaction=settings) as sim:
        sim.cluster.coordinator.faults[api].append(
            CoordinatorFault(error=ErrorCode.transactional_id_authorization_failed)
        )
        sim.send([b"v"])
        with pytest.raises(AuthorizationError) as caught:
            sim.finish()
    assert "--transactional-id prefix- --resource-pattern-type prefixed" in str(caught.value)


def test_timeout_above_the_brokers_maximum(sim: World) -> None:
    sim.cluster.coordinator.max_timeout_ms = 59_999
    sim.send([b"v"])
    with pytest.raises(DeliveryError, match=r"timeout\.ms = 60000") as caught:
        sim.finish()
    assert caught.value.kafka_error == "INVALID_TRANSACTION_TIMEOUT"


def test_denied_topic_is_named() -> None:
    with world(cluster(0), transaction=SETTINGS) as sim:
        sim.cluster.coordinator.denied.add("t")
        sim.send([b"v"])
        with pytest.raises(AuthorizationError) as caught:
            sim.finish()
        assert caught.value.topic == "t"
        assert "--operation Write --topic t" in str(caught.value)


@pytest.mark.parametrize("partition", [0, None])
def test_rows_of_denied_topic_become_dead_letters_until_it_is_permitted(
    partition: int | None,
) -> None:
    brokers = FakeCluster(topics={"t": 2, "dead": 1})
    brokers.coordinator.version = 0
    brokers.coordinator.denied.add("t")
    with world(brokers, tolerant(), transaction=SETTINGS) as sim:
        sim.deliver([b"1", b"2"], partition)
        assert brokers.logs["dead", 0].values() == [b"1", b"2"]
        assert brokers.coordinator.transactions[ID].partitions == {("dead", 0)}
        brokers.coordinator.denied.clear()
        sim.deliver([b"3"], partition)
        assert [log.values() for log in brokers.logs.values() if log.end] == [[b"3"], [b"1", b"2"]]
        assert sim.session.flush_transaction() is not None


def test_nothing_to_commit_if_all_rows_are_dropped() -> None:
    with world(cluster(2), tolerant(None), transaction=SETTINGS) as sim:
        sim.fault(Fault(error=ErrorCode.invalid_record))
        sim.deliver([b"bad"])
        assert sim.session.flush_transaction() is None


def test_expired_batch_names_the_coordinators_error(sim: World) -> None:
    sim.cluster.coordinator.faults[FIND].extend(
        [CoordinatorFault(error=ErrorCode.coordinator_not_available)] * 2_000
    )
    sim.send([b"v"])
    with pytest.raises(DeliveryError, match="COORDINATOR_NOT_AVAILABLE") as caught:
        sim.finish(0.5)
    assert "transaction.state.log.replication.factor" in str(caught.value)
    assert sim.session.transaction_manager is not None


def test_failure_makes_the_transaction_uncommittable(sim: World) -> None:
    sim.deliver_batches(1)
    sim.fault(Fault(error=ErrorCode.invalid_record))
    sim.send_batches(1)
    with pytest.raises(DeliveryError, match=f"{ID} cannot be committed") as caught:
        sim.finish()
    assert caught.value.kafka_error == "INVALID_RECORD"
    with pytest.raises(DeliveryError):
        sim.session.flush_transaction()


def test_session_that_fails_while_its_transaction_is_read(
    sim: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task without an error and without a transaction would count as empty."""
    sim.deliver_batches(1)

    def read(_: TransactionManager) -> None:
        sim.sender.completer.abandon(TransactionError("it has timed out"))

    monkeypatch.setattr(TransactionManager, "transaction", property(read))
    with pytest.raises(TransactionError):
        sim.session.flush_transaction()


def test_batch_that_expires_after_sending_makes_the_transaction_uncommittable(sim: World) -> None:
    sim.cluster.unanswered.add(ApiKey.PRODUCE)
    sim.send_batches(1)
    with pytest.raises(DeliveryError) as caught:
        sim.finish(0.5)
    assert caught.value.kafka_error == "INVALID_TXN_STATE"


# Versions.


def test_transactions_v2_without_topic_ids() -> None:
    brokers = cluster(2)
    brokers.versions[ApiKey.PRODUCE] = VersionRange(0, 12)
    with world(brokers, transaction=SETTINGS) as sim:
        values = sim.deliver_batches(3)
        assert {seen.version for seen in brokers.seen} == {12}
        assert brokers.coordinator.requests_for(ADD) == []
        assert brokers.logs["t", 0].values() == values


def test_v1_is_used_for_brokers_without_transactions_v2() -> None:
    """Whatever the cluster has finalized: V1 is always safe."""
    brokers = cluster(2)
    brokers.versions[ApiKey.PRODUCE] = VersionRange(0, 11)
    with world(brokers, transaction=SETTINGS) as sim:
        sim.deliver_batches(1)
        assert len(brokers.coordinator.requests_for(ADD)) == 1
        transaction = sim.session.flush_transaction()
        assert transaction is not None
        assert transaction.version is TransactionVersion.V1


def test_two_phase_commit_is_requested_without_timeout() -> None:
    brokers = cluster(2)
    brokers.versions[ApiKey.INIT_PRODUCER_ID] = VersionRange(0, 6)
    settings = TransactionSettings(transactional_id=ID, timeout_ms=1_000, two_phase=True)
    with world(brokers, transaction=settings) as sim:
        sim.deliver_batches(1)
        sim.clock.advance(10_000.0)
        sim.steps(3)
        assert sim.session.flush_transaction() is not None
        assert brokers.coordinator.transactions[ID].two_phase


def test_ordinary_transactions_do_not_use_an_unstable_version() -> None:
    brokers = cluster(2)
    brokers.versions[ApiKey.INIT_PRODUCER_ID] = VersionRange(0, 6)
    with world(brokers, transaction=SETTINGS) as sim:
        sim.deliver_batches(1)
        assert (INIT, 5) in brokers.served_versions


def test_two_phase_commit_requires_broker_support(sim: World) -> None:
    settings = TransactionSettings(transactional_id=ID, timeout_ms=60_000, two_phase=True)
    with world(sim.cluster, transaction=settings) as other:
        other.send([b"v"])
        with pytest.raises(ProtocolError, match="InitProducerId 6"):
            other.finish()
