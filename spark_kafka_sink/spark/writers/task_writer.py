"""Tasks of a write, one producer session each.

A `TaskWriter` is pickled to the tasks. It is the same for `format("kafkaprod")` and for `write`,
which pass the tasks' commit messages to the driver in different ways. Delivery is at least once: a
task that Spark runs again writes its rows again.

The driver's worker processes load this module to plan and to commit. Modules that only tasks need
are imported where they are used, because the first write of a Spark session waits for the start of
each of these processes.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.masking import split_query
from spark_kafka_sink.spark.reports.report_folder import report_folder
from spark_kafka_sink.spark.reports.retention import statistics_prefix
from spark_kafka_sink.spark.reports.task_progress import ProgressAddress, ProgressSender
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.runtime.internals import BATCH_ID, QUERY_ID, local_property, startup_ms
from spark_kafka_sink.spark.runtime.preloading import FIRST_TASK, load
from spark_kafka_sink.spark.runtime.worker_context import (
    artifact_folder,
    current_task_attempt,
    with_shipped_files,
)
from spark_kafka_sink.spark.runtime.worker_setup import exclude_from_garbage_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from spark_kafka_sink.common.recreated_topics import WrittenTopic
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.producer.rows import Rows
    from spark_kafka_sink.producer.session import ProducerSession
    from spark_kafka_sink.producer.session_settings import SessionSettings
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles
    from spark_kafka_sink.spark.writers.commit_messages import CommitMessage

_LOG = logging.getLogger(__name__)
_ABORT_S = 5.0
"""Maximum seconds that a failed task may take to abort its transaction; after that, the driver
aborts it.
"""


class TaskWriter:
    """Writes one task's rows. The driver pickles the writer, so it contains only settings."""

    def __init__(
        self, config: SinkConfig, roles: ColumnRoles, origin: WriteOrigin | None = None
    ) -> None:
        self.config = config
        self.roles = roles
        self.origin = origin or WriteOrigin()
        self.artifact_folder = artifact_folder()
        self.progress = ProgressAddress.find(report_folder())

    @property
    def must_write(self) -> bool:
        """False if planning has found that the rows of a batch job are already written."""
        return True

    def run(self, batches: Iterator[pa.RecordBatch]) -> CommitMessage:
        """Write all rows and wait for their acknowledgement. Raises if a row fails."""
        with self.origin.error_file.storing_errors(current_task_attempt().partition_id):
            exclude_from_garbage_collection()
            load(FIRST_TASK)
            startup = self.origin.startup_ms + startup_ms()
            return replace(self.write_and_report(batches), startup_ms=startup)

    def write_and_report(self, batches: Iterable[pa.RecordBatch]) -> CommitMessage:
        """Write all rows, without the error handling of `run`."""
        from spark_kafka_sink.spark.writers.commit_messages import CommitMessage

        report, written = self.send_rows(batches)
        return CommitMessage(self.origin.add_to(report), written=written)

    def send_rows(
        self,
        batches: Iterable[pa.RecordBatch],
        transaction: TransactionSettings | None = None,
        finish: Callable[[ProducerSession | None], None] = lambda _: None,
    ) -> tuple[DeliveryReport, tuple[WrittenTopic, ...]]:
        """Deliver all rows in one producer session; without rows, none is created.

        Args:
            batches: the rows.
            transaction: settings of the transaction in which the rows are written; it is aborted on
                failure.
            finish: called with the session after all rows are acknowledged.
        """
        from spark_kafka_sink.producer.session_pool import borrow_session, give_back_session
        from spark_kafka_sink.report.delivery_report import DeliveryReport

        session: ProducerSession | None = None
        create_topics = self._topic_creator()
        config = with_shipped_files(self.config.producer, self.artifact_folder)

        def min_rows() -> int:
            return 0 if session is None else session.suggested_chunk_rows

        try:
            with self.progress_sender() as progress_sender:
                for rows in self.read_rows(progress_sender.watch(batches), min_rows):
                    create_topics(rows.topics)
                    session = session or progress_sender.attach(
                        borrow_session(config, self.session_settings(), transaction)
                    )
                    session.append(rows)
                if session is not None:
                    session.flush()
            report = DeliveryReport() if session is None else session.report(current_task_attempt())
            finish(session)
        except BaseException:
            if session is not None:
                _discard_session(session, in_transaction=transaction is not None)
            raise
        if session is None:
            return report, ()
        written = session.written_topics
        give_back_session(session)
        return report, written

    def read_rows(
        self, batches: Iterable[pa.RecordBatch], min_rows: Callable[[], int] = lambda: 0
    ) -> Iterator[Rows]:
        """Yield the rows in chunks of about `min_rows` rows, or of one larger Arrow batch."""
        from spark_kafka_sink.spark.rows.arrow_gathering import gather_batches
        from spark_kafka_sink.spark.rows.rows_from_arrow import FirstRow, read_chunks

        clock = SystemClock()
        first = FirstRow(0, current_task_attempt().partition_id)
        for batch in gather_batches(batches, min_rows):
            if batch.num_rows:
                yield from read_chunks(batch, self.roles, clock, first)
                first = replace(first, row=first.row + batch.num_rows)

    def progress_sender(self) -> ProgressSender:
        """Return the sender of this task's progress."""
        return ProgressSender(self.progress, current_task_attempt())

    def session_settings(self) -> SessionSettings:
        """Return the session settings that are not part of the producer's configuration."""
        from spark_kafka_sink.producer.session_settings import SessionSettings
        from spark_kafka_sink.spark.runtime.worker_context import arrow_batch_limits, client_id

        return SessionSettings(
            dead_letters=self.config.dead_letters,
            throttling=self.config.throttling,
            client_id=client_id(self.origin.query_name),
            task_number=current_task_attempt().partition_id,
            dry_run=self.config.dry_run,
            assumed_topics=self.config.assumed_topics,
            statistics_path=self._statistics_path(),
            arrow_batch_limits=arrow_batch_limits(len(self.roles.used)),
            formats=self.roles.described_formats,
        )

    def _topic_creator(self) -> Callable[[Iterable[str]], None]:
        """Return a function that creates the missing topics of a topic column."""
        config = self.config
        if config.topic is not None or config.dry_run or not config.topic_creation.create:
            return lambda _: None
        from spark_kafka_sink.producer.topic_creator import TopicCreator  # rarely needed

        producer = with_shipped_files(config.producer, self.artifact_folder)
        creator = TopicCreator(producer, config.topic_creation)

        def create(names: Iterable[str]) -> None:
            rejected = creator.create_missing(names)
            for name, error in rejected.items():
                if not config.dead_letters.is_tolerant:
                    raise error
                _LOG.warning("topic %s is missing; its rows count as bad rows: %s", name, error)

        return create

    def _statistics_path(self) -> str | None:
        """Return the path of the statistics file, which is unique to this task attempt."""
        folder = self.config.statistics_path
        task = current_task_attempt()
        if folder is None:
            return None
        stream = statistics_prefix(local_property(QUERY_ID), local_property(BATCH_ID))
        name = f"{stream}task-{task.partition_id}-{task.task_attempt_id}-{uuid.uuid4().hex[:8]}"
        base, query = split_query(folder)
        return f"{base.rstrip('/')}/{name}{query}"


def _discard_session(session: ProducerSession, *, in_transaction: bool) -> None:
    """Abort the transaction of a failed task, and discard the session."""
    from spark_kafka_sink.producer.session_pool import discard_session

    try:
        if in_transaction:
            session.abort_transaction(_ABORT_S)
    finally:
        discard_session(session)
