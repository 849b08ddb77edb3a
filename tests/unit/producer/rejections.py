"""A cluster that rejects records, and the dead letters in it."""

from typing import Any

from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.config.throttling import BreakerConfig, ThrottlingConfig
from spark_kafka_sink.kafka.records.record_decoder import Record
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.world import World

DEAD = "dead"


def tolerant(
    dead_letter_topic: str | None = DEAD,
    *,
    breaker: BreakerConfig | None = None,
    max_ratio: float = 1.0,
    context: bool = True,
) -> SessionSettings:
    """Return settings that tolerate bad rows, which are dropped without a dead letter topic."""
    policy = DeadLetterPolicy(
        tolerance=Tolerance.ALL,
        dead_letter_topic=dead_letter_topic,
        max_ratio=max_ratio,
        context_headers=context,
    )
    throttling = ThrottlingConfig(breaker=breaker or BreakerConfig())
    return SessionSettings(dead_letters=policy, throttling=throttling)


def record_errors(*indexes: int) -> dict[str, Any]:
    """Return the field of a Produce response that rejects these records of a batch."""
    return {
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": "no key"} for index in indexes
        ]
    }


def cluster(nodes: int = 1, **topics: int) -> FakeCluster:
    return FakeCluster(nodes, {"t": 4, DEAD: 1} | topics)


def letters(sim: World) -> list[Record]:
    return sim.cluster.logs[DEAD, 0].records()


def reason(record: Record) -> str:
    return (dict(record.headers)["__connect.errors.exception.message"] or b"").decode()


class RejectingLog(FakeLog):
    """A log that rejects batches with a value that contains `word`, without naming the record."""

    def __init__(self, code: int, word: bytes = b"bad") -> None:
        super().__init__(leader=1)
        self.code, self.word, self.judged = code, word, 0

    def append(self, data: bytes) -> tuple[int, int]:
        self.judged += 1
        if self.word in data:
            return self.code, -1
        return super().append(data)
