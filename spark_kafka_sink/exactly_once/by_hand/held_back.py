"""What open transactions hold back: a read_committed reader stops at the first of a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.admin.api_driver import ApiDriver
from spark_kafka_sink.admin.handlers.fetch import LATEST, ListOffsetsHandler
from spark_kafka_sink.admin.lookups import LeaderLookup

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
    from spark_kafka_sink.admin.transaction_states import ActiveProducer
    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.exactly_once.by_hand.overview import OpenTransactionView


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A partition in which one of ours is open."""

    topic: str
    partition: int
    stable_offset: int
    """The last stable offset: readers of committed records get no further."""
    end_offset: int
    """The high watermark."""
    transactional_id: str | None
    """Who holds readers back; None where that is a transaction of somebody else."""

    @property
    def records(self) -> int:
        """Offsets that readers wait for, markers and aborted records among them."""
        return self.end_offset - self.stable_offset


def held_back(
    client: BlockingClient,
    admin: TransactionAdmin,
    views: Sequence[OpenTransactionView],
    deadline: float,
) -> list[HeldBack]:
    """The partitions that these transactions have written to, by topic and number.

    Raises:
        ProtocolError: the brokers are older than Kafka 2.8, and can't describe producers.
    """
    ours = {each.producer_id: each.transactional_id for each in views}
    keys = {key for each in views for key in each.partitions}
    if not keys:
        return []
    producers = admin.describe_producers(keys, deadline)
    ends = _end_offsets(client, keys, deadline)
    found = (_held_back(key, producers[key], ends, ours) for key in sorted(keys))
    return [each for each in found if each is not None]


def _held_back(
    key: TopicPartition,
    producers: Sequence[ActiveProducer],
    ends: Mapping[TopicPartition, int],
    ours: Mapping[int, str],
) -> HeldBack | None:
    """None where the transaction has ended meanwhile."""
    starts = [
        (each.transaction_start, each.producer_id)
        for each in producers
        if each.transaction_start is not None
    ]
    if not starts:
        return None
    start, producer_id = min(starts)
    return HeldBack(
        topic=key.topic,
        partition=key.partition,
        stable_offset=start,
        end_offset=max(start, ends.get(key, start)),
        transactional_id=ours.get(producer_id),
    )


def _end_offsets(
    client: BlockingClient, keys: Collection[TopicPartition], deadline: float
) -> dict[TopicPartition, int]:
    driver = ApiDriver(client, ListOffsetsHandler(client, LATEST), LeaderLookup(client), keys)
    driver.run(deadline)
    return {key: each.value for key, each in driver.results.items() if each.value is not None}
