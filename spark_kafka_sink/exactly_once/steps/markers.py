"""How transactions ended, as the topics themselves say: by the markers behind their records.

For those that coordinators have forgotten (transactional.id.expiration.ms). A producer id of a task
has one transaction alone, so that its first marker in any partition tells of all of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.admin.log_reader import LogReader
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.exactly_once.log.decision import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.exactly_once.log.decision import DecidedBatch
    from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskTransaction

SECONDS: Final = 10.0
"""How long looking for one transaction's marker may take in one partition."""
_LOG = logging.getLogger(__name__)


def settled(
    client: BlockingClient,
    decided: DecidedBatch,
    fates: tuple[Fate, ...],
    deadline: float | None = None,
) -> tuple[Fate, ...]:
    """The fates of a decision's transactions, the unknown ones as the topics tell them.

    No further partition is read after the deadline; None: all of them, `SECONDS` each at most.
    """
    return tuple(
        fate_of(client, task, deadline) if fate is Fate.UNKNOWN else fate
        for task, fate in zip(decided.transactions, fates, strict=True)
    )


def fate_of(client: BlockingClient, task: TaskTransaction, deadline: float | None = None) -> Fate:
    """What the first partition says that has the marker still."""
    for _, fate in fates_by_partition(client, task):
        if fate is not Fate.UNKNOWN or (deadline is not None and client.now() >= deadline):
            return fate
    return Fate.UNKNOWN


def fates_by_partition(
    client: BlockingClient, task: TaskTransaction
) -> Iterator[tuple[PartitionRange, Fate]]:
    """What each partition says of a transaction, asked one by one."""
    for each in task.partitions:
        yield each, _fate_in(client, task, each)


def _fate_in(client: BlockingClient, task: TaskTransaction, place: PartitionRange) -> Fate:
    if place.last_offset is None:
        return Fate.UNKNOWN
    reader = LogReader(client, place.topic, place.partition)
    producer_id = task.transaction.producer_id
    try:
        marker = reader.marker_of(producer_id, place.last_offset, client.deadline(SECONDS))
    except KafkaProdError as error:
        _LOG.warning("how %s ended can't be read from its topic: %s", task.transactional_id, error)
        return Fate.UNKNOWN
    if marker is None:
        return Fate.UNKNOWN
    return Fate.COMMITTED if marker.commit else Fate.LOST
