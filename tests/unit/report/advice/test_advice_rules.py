"""Each rule with a report that triggers it, and with a slightly better report that does not."""

from dataclasses import replace
from typing import Any

import pytest

from spark_kafka_sink.common.histogram import Histogram
from spark_kafka_sink.report.advice import advice_rules
from spark_kafka_sink.report.advice.advice import Direction
from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.advice.pipeline_facts import PipelineFacts
from spark_kafka_sink.report.bad_row_count import BadRowCount
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.summary import summarize
from spark_kafka_sink.report.metrics.producer_metrics import (
    ProducerMetrics,
    TopicMetrics,
)
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.report.task_report import TaskReport
from tests.unit.report.advice.healthy_report import (
    ARROW_BYTES,
    ARROW_ROWS,
    BATCHES,
    arrow_batches_of,
    only,
    parts,
    report,
    rows_of,
    spread,
    times,
)

ERRORS = (("NOT_LEADER_OR_FOLLOWER", 4), ("REQUEST_TIMED_OUT", 16))
NOT_READY = (("NOT_LEADER_OR_FOLLOWER", 100), ("UNKNOWN_TOPIC_ID", 50))
MOVED = (("NOT_LEADER_OR_FOLLOWER", 2),)
FULL_BUFFER: dict[str, Any] = {"closed_memory": 50, "buffer_waits": 9}
BUFFER_WAITS: dict[str, Any] = {"buffer_wait": 5_000_000, "buffer_waits": 40}
NOT_SMALL = (BadRowCount(reason="OVERSIZED", dropped=1),)
Case = tuple[tuple[str, Direction], tuple[str, ...], DeliveryReport, list[DeliveryReport]]
NO_CODEC, ZSTD = ("none", 1_000_000, 0), ("zstd", 300_000, 4_000_000)
SLOW_REQUESTS: dict[str, Any] = {"request_latency": times(0.2), "queue_latency": times(0.4)}
NO_WAIT = times(0.005)
LARGE_BATCH = (TopicMetrics(topic="t", batch_size=spread(9_000_000, 1)),)
LINGERED: dict[str, Any] = {"closed_full": 0, "closed_linger": BATCHES, "fill_time": spread(5_000)}
NEW_TOPIC = tuple(replace(part, first_offset=0) for part in parts(90_000_000, 90_000_000))
TINY_TASKS: dict[str, Any] = {
    "tasks": 1000,
    "partitions": parts(1_000_000, 1_000_000),
    "duration_sum_ms": 100_000,
}
SMALL_BATCHES: dict[str, Any] = {**LINGERED, "partitions": parts(200_000, 200_000)}
OFFSETS = tuple(replace(partition, first_offset=7, last_offset=1006) for partition in parts(9, 9))


def test_report_without_metrics_gets_no_advice() -> None:
    assert advise(DeliveryReport()) == []
    assert advise(replace(report(throttle_ms=9000), metrics=ProducerMetrics())) == []


def test_linger_with_decimals() -> None:
    few = {"linger.ms": "0.5", "batch.size": "16384"}
    advice = advise(report(few, closed_linger=BATCHES, partitions=parts(*[9_000] * 2)))
    assert "0.5 ms" in " ".join(str(line) for line in advice)


def test_busy_broker_is_not_an_in_flight_limit() -> None:
    latency = Histogram.merge_all([times(0.01, BATCHES // 4), times(0.26, BATCHES * 3 // 4)])
    advice = advise(report(request_latency=latency, queue_latency=times(0.4)))
    assert only(advice) == ("the brokers", Direction.CHECK)


def test_slow_tasks_with_few_rows_are_not_too_many() -> None:
    """24 tasks of 1.5 s, two at once: their own time starts with their first rows, at the end."""
    sizes: dict[str, Any] = {
        "partitions": parts(800, 800),
        "duration_sum_ms": 2_000,
        "duration_max_ms": 100,
    }
    assert advise(report(tasks=24, duration_ms=18_000, **sizes)) == []
    quick = advise(report(tasks=24, duration_ms=2_000, **sizes))
    assert only(quick) == ("the number of tasks", Direction.LOWER)


def test_advice_is_one_readable_line() -> None:
    assert str(advise(report({"client.id": "etl"}, throttle_ms=2000))[0]) == (
        "check the brokers' quota: a quota of client.id etl or its user slows the write; raise it, "
        "or send fewer bytes (kafka.compression.type) (throttled 2,000 ms, 20% of the time)"
    )


def test_summary_contains_advice_only_if_there_is_some() -> None:
    assert "advice          check the brokers' quota" in summarize(report(throttle_ms=2000))
    assert "advice" not in summarize(report())


def test_every_setting_that_is_too_small_is_named() -> None:
    """linger.ms, batch.size and buffer.memory, each of which would be the next limit."""
    tiny: dict[str, Any] = {
        "partitions": parts(50_000, 50_000),
        "closed_full": 40,
        "closed_linger": 150,
        "closed_memory": 10,
        "buffer_wait": 5_000_000,
        "buffer_waits": 1,
    }
    settings = {"linger.ms": "1", "batch.size": "600", "buffer.memory": "3000"}
    all_advice = advise(report(settings, **tiny))
    names = {advice.setting: advice for advice in all_advice}
    assert set(names) == {"linger.ms", "batch.size", "buffer.memory"}
    assert {advice.direction for advice in all_advice} == {Direction.RAISE}
    assert "50% of the time, 1 time; buffer.memory is 3,000" in names["buffer.memory"].evidence
    assert (
        "40 of 200 batches were full at 600 bytes, with 500 bytes on average"
        in names["batch.size"].evidence
    )
    assert "5 bytes reached a partition in 1 ms" in names["linger.ms"].evidence
    usual = advise(report({**settings, "linger.ms": "5"}, **tiny))
    assert {advice.setting for advice in usual} == {"batch.size", "buffer.memory"}


def slowest(*partition_ids: int) -> tuple[TaskReport, ...]:
    return tuple(
        TaskReport(duration_ms=100, task=TaskAttempt(partition_id=partition))
        for partition in partition_ids
    )


def costs(*codecs: tuple[str, int, int]) -> tuple[CodecCost, ...]:
    return tuple(
        CodecCost(
            codec=name,
            batches=2,
            records=10_000,
            bytes_uncompressed=1_000_000,
            bytes_compressed=compressed,
            cpu_ns=cpu_ns,
        )
        for name, compressed, cpu_ns in codecs
    )


CASES: dict[str, Case] = {
    "one acknowledgement": (
        ("the records", Direction.CHECK),
        ("acks=1: an acknowledged record is lost",),
        report({"acks": "leader"}, partitions=OFFSETS),
        [report({"acks": "all"}, partitions=OFFSETS), report({"acks": "leader"})],
    ),
    "leaders that changed": (
        ("the records", Direction.CHECK),
        ("leaders changed during the write: 2 rejected batches",),
        report({"acks": "all"}, partitions=OFFSETS, errors=MOVED),
        [report({"acks": "all"}, partitions=NEW_TOPIC, errors=MOVED)],
    ),
    "a quota": (
        ("the brokers' quota", Direction.CHECK),
        ("2,000 ms, 20% of the time",),
        report(throttle_ms=2000),
        [report(throttle_ms=400), report(queue_latency=times(0.5))],
    ),
    "retries": (
        ("the brokers", Direction.CHECK),
        ("20 retries for 200 batches, REQUEST_TIMED_OUT 16 times",),
        report(retries=20, errors=ERRORS),
        [
            report(retries=9, errors=ERRORS),
            report(retries=150, errors=NOT_READY, partitions=NEW_TOPIC),
            report(retries=20, errors=ERRORS, throttle_ms=5000),  # responses delayed by a quota
        ],
    ),
    "new partitions": (
        ("when the topics are created", Direction.CHECK),
        ("150 times because a leader was not ready; 2 of 2 partitions started at offset 0",),
        report(retries=150, errors=NOT_READY, partitions=NEW_TOPIC),
        [
            report(retries=150, errors=NOT_READY),
            report(retries=150, errors=ERRORS, partitions=NEW_TOPIC),
        ],
    ),
    "rejected for their size": (
        ("batch.size", Direction.LOWER),
        ("rejected for their size: 20 batches; accepted: 200",),
        report(splits=20),
        [report(splits=1), report(errors=(("MESSAGE_TOO_LARGE", 3),))],
    ),
    "a slow codec": (
        ("compression.type", Direction.LOWER),
        ("compressing with gzip took 90% of the time, 45.0 ms per batch",),
        report({"compression.type": "gzip"}, compression_time=spread(45_000)),
        [
            report({"compression.type": "gzip"}, compression_time=spread(10_000)),
            # Busy most of the time, and nothing waits for it.
            report({"compression.type": "gzip"}, compression_time=spread(35_000)),
            report({"compression.type": "lz4"}, compression_time=spread(45_000)),
        ],
    ),
    "a quick codec": (
        ("the number of tasks", Direction.RAISE),
        ("compressing with lz4 took 90% of the time, 45.0 ms per batch",),
        report({"compression.type": "lz4"}, compression_time=spread(45_000)),
        [report({"compression.type": "gzip"}, compression_time=spread(45_000))],
    ),
    "full batches on a long way": (
        ("batch.size", Direction.RAISE),
        ("5 requests of 900,000 bytes to 1 broker in 200.0 ms", "22.50 MB/s; it sent 18.00"),
        report(**SLOW_REQUESTS),
        [
            report({"linger.ms": "10"}, **SLOW_REQUESTS, closed_full=20, closed_linger=180),
            report(**SLOW_REQUESTS, splits=20),  # they are already too large for the topic
        ],
    ),
    "early batches on a long way": (
        ("linger.ms", Direction.RAISE),
        ("5 requests of 900,000 bytes to 1 broker in 200.0 ms",),
        report({"linger.ms": "10"}, **SLOW_REQUESTS, closed_full=20, closed_linger=180),
        [report(**SLOW_REQUESTS)],
    ),
    "one request on a long way": (
        ("max.in.flight.requests.per.connection", Direction.RAISE),
        ("1 request of 900,000 bytes to 1 broker in 200.0 ms",),
        report({"max.in.flight.requests.per.connection": "1"}, **SLOW_REQUESTS),
        [
            report(
                {"max.in.flight.requests.per.connection": "1"},
                partitions=tuple(
                    replace(part, next_ack_seq=None)  # without idempotence it would reorder
                    for part in parts(90_000_000, 90_000_000)
                ),
                **SLOW_REQUESTS,
            ),
            report(**SLOW_REQUESTS),
        ],
    ),
    "a buffer for all partitions": (
        ("buffer.memory", Direction.RAISE),
        ("2 partitions x batch.size 1,048,576 = 2,097,152 bytes",),
        report({"buffer.memory": "1500000"}, **FULL_BUFFER),
        [
            report({"buffer.memory": "1500000"}, **FULL_BUFFER, throttle_ms=5000),
            report({"buffer.memory": "1500000"}, buffer_waits=9, closed_memory=1),
            # Without keys, one batch is open at a time.
            report(
                {"buffer.memory": "1500000", "partitioner": "default"},
                topics=rows_of("default")["topics"],
                **FULL_BUFFER,
            ),
        ],
    ),
    "full small batches": (
        ("batch.size", Direction.RAISE),
        ("200 of 200 batches were full at 16,384 bytes",),
        report({"batch.size": "16384"}),
        [
            report({"batch.size": "16384"}, queue_latency=times(0.02)),  # nothing waits
            report({"batch.size": "16384"}, splits=20),
            report({"batch.size": "16384"}, closed_full=20, closed_flush=180),
        ],
    ),
    "batches that time closes": (
        ("linger.ms", Direction.RAISE),
        ("200 of 200 batches were sent after 5 ms with 2,000 of 1,048,576 bytes", "about 1,000"),
        report({"linger.ms": "5"}, **SMALL_BATCHES),
        [
            report({"linger.ms": "5"}, **SMALL_BATCHES, queue_latency=NO_WAIT),  # a slow source
            report({"linger.ms": "1000"}, **SMALL_BATCHES),
            report({"linger.ms": "5", "partitioner": "round_robin"}, **SMALL_BATCHES),
        ],
    ),
    "slow brokers": (
        ("the brokers", Direction.CHECK),
        ("closed batches waited 480.0 ms, linger.ms is 50",),
        report(queue_latency=times(0.5)),
        [
            report(queue_latency=times(0.06)),
            report(queue_latency=times(0.5), throttle_ms=2000),
            report(queue_latency=times(0.5), compression_time=spread(45_000)),
            report(
                queue_latency=times(0.5),
                partitions=parts(*[900_000] * 7, 90_000_000),  # which waits for itself
            ),
        ],
    ),
    "skew": (
        ("the keys", Direction.CHECK),
        ("t-0 got 90.0 MB, 3.0 times the mean",),
        report(partitions=parts(90_000_000, *[10_000_000] * 3)),
        [
            report(partitions=parts(*[40_000_000] * 4)),
            report(partitions=parts(90_000_000, *[10_000_000] * 3), **rows_of("default")),
            report(
                partitions=parts(90_000_000, *[10_000_000] * 3),
                **rows_of("default", assigned=4_000),
            ),
        ],
    ),
    "rows one by one": (
        ("the default partitioner", Direction.SET),
        ("round_robin distributes the rows over 2 partitions",),
        report({"partitioner": "round_robin"}, **SMALL_BATCHES),
        [
            report({"partitioner": "default"}, **SMALL_BATCHES),
            report({"partitioner": "round_robin"}),
            report(
                {"partitioner": "round_robin"}, **{**SMALL_BATCHES, "partitions": parts(400_000)}
            ),
        ],
    ),
    "tiny tasks": (
        ("the number of tasks", Direction.LOWER),
        (
            "1,000 tasks with 2,000 bytes and 100 ms each",
            "unless the computation of the rows needs that many tasks",
        ),
        report(**TINY_TASKS, slowest=slowest(*range(10))),
        [
            report(**{**TINY_TASKS, "tasks": 10}),
            report(tasks=1000),
            report(**TINY_TASKS, duration_ms=1_000_000),
            report(**TINY_TASKS, slowest=slowest(0, 1, 0, 1, 1)),  # micro-batches of two tasks each
        ],
    ),
    "Kafka is slower than Spark": (
        ("buffer.memory", Direction.CHECK),
        ("50% of the time, 40 times",),
        report(**BUFFER_WAITS),
        [
            report(buffer_wait=1_000_000, buffer_waits=4),
            report(**BUFFER_WAITS, throttle_ms=5000),
            report(**BUFFER_WAITS, retries=150, errors=NOT_READY, partitions=NEW_TOPIC),
            report({"buffer.memory": "3000"}, **BUFFER_WAITS),
        ],
    ),
    "measured Arrow batches": (
        (ARROW_BYTES, Direction.RAISE),
        (
            "rows of 1 column and 131 bytes, 1,000,000 per second and task",
            "about 13% of the time",
            "2147483647, as in conf/spark-small-rows.conf",
        ),
        arrow_batches_of(1_000_000, 131),
        [
            arrow_batches_of(390_000, 131),
            arrow_batches_of(1_000_000, 131, poison=NOT_SMALL),
            arrow_batches_of(1_000_000, 131, topics=LARGE_BATCH),
            # Kafka is slower, and Spark waits.
            arrow_batches_of(1_000_000, 131, buffer_wait=500_000),
        ],
    ),
    "costly measuring": (
        (ARROW_BYTES, Direction.RAISE),
        ("rows of 10 columns and 131 bytes, 300,000 per second and task", "about 19% of the time"),
        arrow_batches_of(300_000, 131, columns=10),
        [arrow_batches_of(300_000, 131, 2**31 - 1, columns=10)],
    ),
    "unbounded Arrow batches": (
        (ARROW_BYTES, Direction.LOWER),
        ("10,000 rows of 60,000 bytes form a batch of 600 MB",),
        arrow_batches_of(10_000, 60_000, 2**31 - 1),
        [
            arrow_batches_of(1_000, 60_000, 2**31 - 1),
            arrow_batches_of(10_000, 60_000),
            arrow_batches_of(10_000, 60_000, 2**31 - 1, max_rows=500),
        ],
    ),
    "short Arrow batches": (
        (ARROW_ROWS, Direction.RAISE),
        (
            "3,000 Arrow batches of 100 rows, which take at least 21% of the time",
            "conf/spark-defaults.conf",
        ),
        arrow_batches_of(300_000, 131, max_rows=100),
        [
            arrow_batches_of(300_000, 131, max_rows=1_000),
            arrow_batches_of(70_000, 131, max_rows=100),
            arrow_batches_of(50, 131, max_rows=100),  # there are no more rows
            arrow_batches_of(300_000, 131, max_rows=100, buffer_wait=500_000),
        ],
    ),
    "serializing": (
        ("value.format", Direction.CHECK),
        ("serializing took 8.0 s of the tasks' 10.0 s",),
        report({"value.format": "json"}, serialize_time=8_000_000),
        [
            report({"value.format": "json"}, serialize_time=4_000_000),
            report(
                {"value.format": "json"},
                serialize_time=8_000_000,
                partitions=(replace(parts(180_000_000)[0], batches=3),),
            ),
            report(
                {"value.format": "json"}, serialize_time=8_000_000, duration_sum_ms=40_000, tasks=4
            ),
        ],
    ),
    "another codec": (
        ("kafka.compression.type=zstd", Direction.SET),
        ("zstd compresses 3.3 to 1, none 1.0 to 1, measured on 2 batches",),
        report(dry_run=True, codecs=costs(NO_CODEC, ZSTD)),
        [
            report(dry_run=True, codecs=costs(NO_CODEC, ("zstd", 950_000, 4_000_000))),
            report(dry_run=True, codecs=costs(NO_CODEC, ("zstd", 300_000, 40_000_000))),
            report({"compression.type": "zstd"}, dry_run=True, codecs=costs(NO_CODEC, ZSTD)),
            report(
                {"compression.type": "zstd"},
                dry_run=True,
                codecs=costs(("zstd", 300_000, 40_000_000), ("gzip", 300_000, 50_000_000)),
            ),
            report(codecs=costs(NO_CODEC, ZSTD)),
        ],
    ),
}
"""Each piece of advice: parts of its text, a report that asks for it, and others that do not."""


def advised(delivery: DeliveryReport) -> set[tuple[str, Direction]]:
    return {(advice.setting, advice.direction) for advice in advise(delivery)}


@pytest.mark.parametrize("name", CASES)
def test_advice_for_each_case_and_none_for_similar_ones(name: str) -> None:
    expected, texts, asks, wrong = CASES[name]
    assert only(advise(asks)) == expected
    assert [text for text in texts if text not in str(advise(asks)[0])] == []
    for number, similar in enumerate(wrong):
        assert expected not in advised(similar), number


def test_every_rule_has_a_case() -> None:
    rules = {*advice_rules._RULES, *advice_rules._DRY_RUN_RULES}
    facts = [PipelineFacts(asks) for _, _, asks, _ in CASES.values()]
    assert [rule.__name__ for rule in rules if not any(map(rule, facts))] == []


def test_advice_is_consistent() -> None:
    """No setting is to be raised and lowered by the same report."""
    for _, _, asks, wrong in CASES.values():
        for delivery in (asks, *wrong):
            settings = advised(delivery)
            raised = {setting for setting, way in settings if way is Direction.RAISE}
            lowered = {setting for setting, way in settings if way is Direction.LOWER}
            assert not raised & lowered, settings
