"""How long the driver takes to end many transactions that tasks have left open."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_kafka_sink.admin.blocking_client import BlockingClient
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.client.cluster import TopicPartition
from spark_kafka_sink.config.model import ProducerConfig
from tools.benchmarks.sample import BenchmarkError
from tools.benchmarks.topics import PARTITIONS, fresh_topic
from tools.support.transactions import open_transactions

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS = 60.0
"""Within which all must have ended."""


class EndingError(BenchmarkError):
    """Transactions were not committed."""


def end_all(bootstrap_servers: str, transactions: int) -> float:
    """Seconds from the first EndTxn to the last answer; each transaction has one record.

    Raises:
        EndingError: one was refused, or not answered within a minute.
    """
    config = ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers})
    with (
        fresh_topic(bootstrap_servers, transactions, transactions) as topic,
        BlockingClient(config) as client,
    ):
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        names = [f"{topic}-{number}" for number in range(transactions)]
        opened = open_transactions(client, names, places)
        began = time.perf_counter()
        codes = TransactionAdmin(client).end(opened, commit=True, deadline=client.deadline(SECONDS))
        seconds = time.perf_counter() - began
        check_ended(codes.values())
        return seconds


def check_ended(codes: Iterable[int]) -> None:
    """Raise EndingError unless all codes are 0."""
    if refused := sorted({code for code in codes if code}):
        raise EndingError(f"EndTxn was answered with {refused}")
