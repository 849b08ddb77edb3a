"""Create open transactions, like those that a failed task leaves behind, and their batches."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.admin.transaction_handlers import InitProducerIdHandler
from spark_kafka_sink.kafka.blocking.api_driver import ApiDriver
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.logs.append_handlers import AddPartitionsHandler, ProduceHandler
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_batch import TRANSACTIONAL, BatchHeader
from spark_kafka_sink.kafka.records.record_encoder import encode_records, slice_records

TIMEOUT_MS = 600_000


def batch(
    values: Sequence[bytes | None],
    *,
    base: int = 0,
    producer: int | None = None,
    epoch: int = 0,
    leader_epoch: int = 0,
    sequence: int = -1,
) -> bytes:
    """Return a batch of records with key `b"k"`; with a producer, the batch is transactional."""
    keys = pa.array([b"k"] * len(values), pa.binary())
    columns = Columns(value=pa.array(values, pa.binary()), key=keys)
    encoded = encode_records(columns, np.arange(len(values), dtype=np.int32))
    data = slice_records(encoded, 0, len(values))
    header = BatchHeader(
        base_offset=base,
        leader_epoch=leader_epoch,
        attributes=0 if producer is None else TRANSACTIONAL,
        last_offset_delta=len(values) - 1,
        base_timestamp=1,
        max_timestamp=1,
        producer_id=-1 if producer is None else producer,
        producer_epoch=-1 if producer is None else epoch,
        base_sequence=sequence,
        record_count=len(values),
    )
    return header.pack([data]) + data.tobytes()


def open_transaction(
    client: BlockingClient, name: str, topic: str, partition: int = 0
) -> TransactionalProducer:
    """Open a transaction and write one record, whose value is the transactional id."""
    return open_transactions(client, [name], [TopicPartition(topic, partition)])[0]


def open_transactions(
    client: BlockingClient, names: Sequence[str], places: Sequence[TopicPartition]
) -> list[TransactionalProducer]:
    """Open a transaction for each name; distribute them over the partitions."""
    deadline = client.deadline(120)
    init = ApiDriver(client, InitProducerIdHandler(TIMEOUT_MS), names)
    assert init.run(deadline)
    opened = []
    for number, name in enumerate(names):
        owner = init.results[name].value
        assert owner is not None, init.results[name]
        write(client, owner, places[number % len(places)])
        opened.append(owner)
    return opened


def write(client: BlockingClient, owner: TransactionalProducer, place: TopicPartition) -> None:
    """Write one record in an open transaction."""
    deadline, name = client.deadline(60), owner.transactional_id
    if owner.version.needs_add_partitions:
        add = ApiDriver(client, AddPartitionsHandler(owner, place), (name,))
        assert add.run(deadline)
        assert add.results[name].code == 0
    data = batch([name.encode()], producer=owner.producer_id, epoch=owner.epoch, sequence=0)
    produce = ApiDriver(client, ProduceHandler(client, [data], owner), (place,))
    assert produce.run(deadline)
    assert produce.results[place].code == 0, produce.results
