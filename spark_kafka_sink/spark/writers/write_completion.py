"""Commit and abort of a write on the driver, and the planned write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.spark.reports.publication import Publication
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
    from spark_kafka_sink.spark.writers.task_writer import TaskWriter


class WriteCompletion:
    """Commit and abort of a write, called on the driver."""

    def __init__(self, config: SinkConfig, origin: WriteOrigin) -> None:
        self.config = config
        self.origin = origin

    def commit(self, messages: Sequence[object], batch_id: int | None = None) -> DeliveryReport:
        """Publish and return the report of a write after all tasks have finished.

        Args:
            messages: the commit messages of the tasks; anything else counts as missing.
            batch_id: number of the micro-batch; None for a batch write.

        Raises:
            DeliveryError: see `complete_report`.
        """
        from spark_kafka_sink.spark.writers.commit_messages import complete_report

        publication = self.publication(batch_id)
        with self.origin.error_file.storing_errors():
            report = complete_report(messages, self.config.report_tasks)
        return publication.succeed(report)

    def abort(
        self,
        messages: Sequence[object],
        batch_id: int | None = None,
        error: KafkaProdError | None = None,
    ) -> None:
        """Publish the report of a failed write, including the deliveries of its finished tasks.

        Args:
            messages: the commit messages of the tasks.
            batch_id: number of the micro-batch; None for a batch write.
            error: the error of the write, if the caller knows it.
        """
        from spark_kafka_sink.spark.writers.commit_messages import finished_report

        publication = self.publication(batch_id, error)
        publication.fail(finished_report(messages, self.config.report_tasks))

    def publication(self, batch_id: int | None, error: KafkaProdError | None = None) -> Publication:
        """Return the publication of the write, and of its error if it is known."""
        from spark_kafka_sink.spark.reports.publication import Publication

        publication = Publication.of(self.config, self.origin, batch_id)
        return publication if error is None else replace(publication, error=error)


@dataclass(frozen=True, slots=True)
class WriteJob:
    """A planned batch write or micro-batch."""

    task: TaskWriter
    """Pickled to the tasks."""
    completion: WriteCompletion
    """Commits or aborts."""
