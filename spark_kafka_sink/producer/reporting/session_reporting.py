"""What a session reports: its delivery report and its debug events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.debug_log import new_id
from spark_kafka_sink.common.recreated_topics import WrittenTopics
from spark_kafka_sink.config.client_config import DEFAULT_CLIENT_ID
from spark_kafka_sink.producer.buffer.batch_listener import BatchListeners
from spark_kafka_sink.producer.reporting.producer_events import ProducerEvents
from spark_kafka_sink.producer.reporting.report_listener import ReportListener
from spark_kafka_sink.report.report_builder import ReportBuilder

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.producer.session_settings import SessionSettings


class SessionReporting:
    """The report and the debug events of a session, and the listeners that fill them."""

    def __init__(self, config: ProducerConfig, settings: SessionSettings) -> None:
        client_id = config.client_id or settings.client_id or DEFAULT_CLIENT_ID
        options = (*config.pipeline(), *settings.arrow_batch_limits, *settings.formats)
        reported = tuple(sorted((*options, ("client.id", client_id))))
        self.builder = ReportBuilder(reported, dry_run=settings.dry_run)
        self.written = WrittenTopics()
        self.events = ProducerEvents(new_id(), config.debug)
        self.listeners = BatchListeners(
            (ReportListener(self.builder), *((self.events,) if config.debug else ()))
        )
