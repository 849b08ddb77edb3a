"""The commit message of a task that wrote in a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.spark.commit_messages import DeliveryMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import WriterCommitMessage

    from spark_kafka_sink.exactly_once.task_transaction import TaskResult


@dataclass
class TransactionMessage(DeliveryMessage):
    """A task's rows are acknowledged in a transaction that only the driver can commit."""

    result: TaskResult
    nonce: str
    """Of the planning that the task belongs to."""


def of_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TransactionMessage]:
    """Those of tasks that came to their end."""
    return [each for each in messages if isinstance(each, TransactionMessage)]
