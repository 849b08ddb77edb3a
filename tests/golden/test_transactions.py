"""All requests of a transaction read by Kafka's classes, and its batches byte by byte."""

from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import Buffer

from spark_kafka_sink.kafka.protocol.frame import FrameReader
from spark_kafka_sink.kafka.protocol.messages import read_request_header
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.golden.jvm_messages import parse
from tests.golden.jvm_records import read_batches, write_batch
from tests.support.harness.fake import FakeCluster, FakeTransport
from tests.support.harness.world import world
from tools.support.java import Jvm

ID = "préfixe-7-00ff-0-3"
NAMES = {
    ApiKey.FIND_COORDINATOR: "FindCoordinatorRequest",
    ApiKey.INIT_PRODUCER_ID: "InitProducerIdRequest",
    ApiKey.ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxnRequest",
    ApiKey.PRODUCE: "ProduceRequest",
    ApiKey.END_TXN: "EndTxnRequest",
}


class Wire:
    """A client's end of a connection that records the written bytes."""

    def __init__(self, transport: FakeTransport, sent: bytearray) -> None:
        self._transport, self._sent = transport, sent
        self.unsent, self.cipher = transport.unsent, transport.cipher
        self.fileno, self.finish_connect = transport.fileno, transport.finish_connect
        self.read, self.close = transport.read, transport.close

    def write(self, buffers: Sequence[Buffer]) -> int:
        count = self._transport.write(buffers)
        self._sent += b"".join(bytes(part) for part in buffers)[:count]
        return count


class TappedCluster(FakeCluster):
    """Records all bytes that clients send."""

    def __init__(self, level: int) -> None:
        super().__init__(topics={"t": 2})
        self.coordinator.version = level
        self.sent: list[bytearray] = []

    def connect(
        self, address: tuple[int, tuple[str, int]], _send: int = -1, _receive: int = -1
    ) -> Any:
        self.sent.append(bytearray())
        return Wire(super().connect(address), self.sent[-1])

    def bodies(self) -> dict[ApiKey, tuple[int, bytes]]:
        """Return version and body of the latest request of each API."""
        request_bodies = {}
        for sent in self.sent:
            for frame in FrameReader().feed(bytes(sent)):
                header = read_request_header(frame)
                body = bytes(frame[header.body_offset :])
                request_bodies[ApiKey(header.api_key)] = (header.version, body)
        return request_bodies


@pytest.mark.parametrize(
    ("level", "find"), [(2, 6), (0, 6), (0, 3), (0, 1)], ids=["V2", "V1", "V1 old", "V1 oldest"]
)
def test_kafka_reads_the_same_values(jvm: Jvm, level: int, find: int) -> None:
    settings = TransactionSettings(transactional_id=ID, timeout_ms=65_432)
    cluster = TappedCluster(level)
    cluster.versions[ApiKey.FIND_COORDINATOR] = VersionRange(0, find)
    with world(cluster, transaction=settings) as sim:
        sim.send_batches(2)
        sim.deliver([b"other"], 1)
        opened = sim.session.flush_transaction()
        assert sim.run_while_stepping(lambda: sim.session.abort_transaction(5.0))
    assert opened is not None
    read = {}
    for api, (version, body) in cluster.bodies().items():
        if api in NAMES:
            understood = parse(jvm, NAMES[api], version, body)
            assert (understood.rest, understood.again) == (0, body)
            read[api] = understood.fields
    find_fields = read[ApiKey.FIND_COORDINATOR]
    assert find_fields["keyType"] == 1
    assert ID in (find_fields.get("key"), *find_fields.get("coordinatorKeys", ()))
    assert read[ApiKey.INIT_PRODUCER_ID]["transactionalId"] == ID
    assert read[ApiKey.INIT_PRODUCER_ID]["transactionTimeoutMs"] == 65_432
    assert read[ApiKey.PRODUCE]["transactionalId"] == ID
    if level == 2:
        ended = read[ApiKey.END_TXN]
        assert (ended["transactionalId"], ended["committed"]) == (ID, False)
        assert (ended["producerId"], ended["producerEpoch"]) == (opened.producer_id, opened.epoch)
    else:
        added = read[ApiKey.ADD_PARTITIONS_TO_TXN]
        (topic,) = added["v3AndBelowTopics"]
        assert (topic["name"], sorted(topic["partitions"])) == ("t", [0, 1])


@pytest.mark.parametrize("level", [0, 2], ids=["V1", "V2"])
def test_transactional_batches_match_kafka(jvm: Jvm, level: int) -> None:
    settings = TransactionSettings(transactional_id=ID, timeout_ms=60_000)
    cluster = FakeCluster(topics={"t": 1})
    cluster.coordinator.version = level
    with world(cluster, transaction=settings) as sim:
        values = sim.deliver_batches(3)
        batches = cluster.logs["t", 0].batches
    golden = [part for data in batches for part in read_batches(jvm, data)]
    assert [record.value for batch in golden for record in batch.records] == values
    assert [batch.transactional for batch in golden] == [True] * 3
    assert [batch.base_sequence for batch in golden] == [0, 3, 6]
    for data, java_batch in zip(batches, golden, strict=True):
        assert write_batch(jvm, java_batch) == data
