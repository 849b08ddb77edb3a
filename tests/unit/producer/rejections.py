"""A cluster that rejects records, and the dead letters in it."""

from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.config.throttling import BreakerConfig, ThrottlingConfig
from spark_kafka_sink.kafka.records.record_decoder import Record
from spark_kafka_sink.producer.session_context import SessionSettings
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.world import World

DEAD = "dead"


def tolerant(
    breaker: BreakerConfig | None = None, *, letters: bool = True, max_ratio: float = 1.0
) -> SessionSettings:
    topic = DEAD if letters else None
    return SessionSettings(
        dead_letters=DeadLetterPolicy(
            tolerance=Tolerance.ALL, dead_letter_topic=topic, max_ratio=max_ratio
        ),
        throttling=ThrottlingConfig(breaker=breaker or BreakerConfig()),
    )


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
