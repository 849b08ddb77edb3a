"""Scenarios with equal results for `format("kafka")` and `format("kafkaprod")`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any

HEADERS = "headers array<struct<key:string,value:binary>>"
KEYS = [None, "", "a", "key", "N14228", "Grüße", "键", "k" * 200]
_OLD = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
_NUMBERS = range(200)
_SHORT = {"kafka.max.block.ms": "2000"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Rows and options of a write.

    Topics are "one", "two", ... in the `topic` column and the topic option; tests add a prefix.
    `fixed_partitions`: the partition depends only on the row, so it must be equal in both formats.
    `error`: text of the expected error in both formats. `early`: fail before any task.
    """

    name: str
    schema: str
    rows: list[tuple[Any, ...]]
    _: KW_ONLY
    topic: str | None = "one"
    options: dict[str, str] = field(default_factory=dict)
    fixed_partitions: bool = True
    error: str | None = None
    early: bool = False


ACCEPTED = (
    Scenario(
        "string-values",
        "value string",
        [("",), ("a",), ("Grüße",), ("x" * 10_000,)],
        fixed_partitions=False,
    ),
    Scenario(
        "binary-values",
        "value binary",
        [(b"",), (b"\x00\xff",), (bytes(range(256)) * 40,)],
        fixed_partitions=False,
    ),
    Scenario(
        "string-keys",
        "key string, value string",
        [(key, f"v{i}") for i, key in enumerate(KEYS) if key is not None],
    ),
    Scenario(
        "binary-keys",
        "key binary, value binary",
        [(bytes([i, 255 - i] * (i % 7)), bytes([i])) for i in _NUMBERS],
    ),
    Scenario(
        "null-keys-between-keys",
        "key string, value string",
        [(key, "v") for key in KEYS] * 3,
        fixed_partitions=False,
    ),
    Scenario(
        "all-keys-null",
        "key string, value string",
        [(None, "a"), (None, "b")],
        fixed_partitions=False,
    ),
    Scenario(
        "tombstones",
        "key string, value binary",
        [("a", None), ("b", b""), ("c", b"x"), ("a", None)],
    ),
    Scenario("all-values-null", "value string", [(None,), (None,)], fixed_partitions=False),
    Scenario(
        "topic-column",
        "topic string, key string, value string",
        [("one", "a", "1"), ("two", "a", "2"), ("one", "b", "3"), ("three", "a", "4")],
        topic=None,
    ),
    Scenario(
        "many-topics",
        "topic string, key string, value string",
        [(f"topic-{i % 7}", f"k{i}", f"v{i}") for i in _NUMBERS],
        topic=None,
    ),
    Scenario(
        "topic-option-over-column",
        "topic string, key string, value string",
        [("two", "a", "1"), ("three", "b", "2")],
    ),
    Scenario(
        "topic-option-over-null-topics",
        "topic string, key string, value string",
        [(None, "a", "1"), ("two", "b", "2")],
    ),
    Scenario(
        "topic-option-over-column-of-another-type",
        "topic binary, key string, value string",
        [(b"two", "a", "1")],
    ),
    Scenario(
        "partition-column",
        "partition int, key string, value string",
        [(i % 4, "same key", f"v{i}") for i in _NUMBERS],
    ),
    Scenario(
        "null-partition-means-partitioner",
        "partition int, key string, value string",
        [(None, "a", "1"), (3, "a", "2"), (None, "b", "3"), (0, None, "4")],
    ),
    Scenario(
        "all-partitions-null",
        "partition int, key string, value string",
        [(None, f"k{i}", f"v{i}") for i in _NUMBERS],
    ),
    Scenario(
        "partition-and-topic-columns",
        "topic string, partition int, value string",
        [("one", 0, "1"), ("two", 3, "2"), ("one", 2, "3")],
        topic=None,
    ),
    Scenario(
        "headers",
        f"key string, value string, {HEADERS}",
        [
            ("a", "1", [("h", b"x")]),
            ("b", "2", [("h", b"x"), ("h", b"y"), ("other", b"")]),
            ("c", "3", None),
            ("d", "4", []),
            ("e", None, [("only", None), ("", b"empty key")]),
        ],
    ),
    Scenario(
        "all-headers-null",
        f"key string, value string, {HEADERS}",
        [("a", "1", None), ("b", "2", None)],
    ),
    Scenario(
        "include-headers-option",
        f"key string, value string, {HEADERS}",
        [("a", "1", [("h", b"x")])],
        options={"includeHeaders": "true"},
    ),
    Scenario(
        "columns-in-any-order-and-extra-ones",
        "n bigint, value string, tags map<string,int>, key string, s struct<a:int,b:date>",
        [(1, "v", {"a": 1}, "k", (1, None)), (2, "w", None, "l", None)],
    ),
    Scenario(
        "timestamp-column-ignored",
        "key string, value string, timestamp timestamp, offset bigint, timestampType int",
        [("a", "1", _OLD, 7, 0), ("b", "2", None, 8, 1)],
    ),
    Scenario(
        "timestamp-of-another-type-ignored",
        "key string, value string, timestamp string",
        [("a", "1", "yesterday")],
    ),
    Scenario("no-rows", "key string, value string", []),
    Scenario(
        "producer-options",
        "key string, value string",
        [(f"k{i}", "v" * i) for i in _NUMBERS],
        options={
            "kafka.acks": "1",
            "kafka.compression.type": "lz4",
            "kafka.linger.ms": "20",
            "kafka.batch.size": "1000",
            "kafka.client.id": "scenario",
        },
    ),
)

FAILING = (
    Scenario(
        "no-value-column",
        "key string, Value string",
        [("a", "1")],
        error="Required attribute 'value' not found",
        early=True,
    ),
    Scenario(
        "no-topic-anywhere",
        "value string",
        [("a",)],
        topic=None,
        error="topic option required when no 'topic' attribute is present",
        early=True,
    ),
    *(
        Scenario(
            f"wrong-type-{name}-{number}",
            f"{name} {kind}" if name == "value" else f"value string, {name} {kind}",
            [],
            topic=None if name == "topic" else "one",
            error=f"{name} attribute unsupported type",
            early=True,
        )
        for number, (name, kind) in enumerate(
            (
                ("value", "int"),
                ("value", "struct<a:int>"),
                ("key", "bigint"),
                ("topic", "binary"),
                ("partition", "bigint"),
                ("partition", "string"),
                ("headers", "map<string,binary>"),
                ("headers", "array<struct<key:string,value:string>>"),
                ("headers", "array<struct<value:binary,key:string>>"),
            )
        )
    ),
    Scenario(
        "null-topic",
        "topic string, value string",
        [("one", "a"), (None, "b")],
        topic=None,
        error="null topic",
    ),
    Scenario(
        "negative-partition", "partition int, value string", [(-1, "a")], options=_SHORT, error="-1"
    ),
    Scenario(
        "partition-out-of-range",
        "partition int, value string",
        [(4, "a")],
        options=_SHORT,
        error="4",
    ),
    Scenario(
        "header-without-key",
        f"value string, {HEADERS}",
        [("a", [("h", b"x"), (None, b"y")])],
        error="",
    ),
    Scenario(
        "record-too-large",
        "value string",
        [("x" * 3_000,)],
        options={"kafka.max.request.size": "2000"},
        error="max.request.size",
    ),
    Scenario(
        "serializer",
        "value string",
        [("a",)],
        options={"kafka.key.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        error="key.serializer",
        early=True,
    ),
    Scenario(
        "unknown-codec",
        "value string",
        [("a",)],
        options={"kafka.compression.type": "brotli"},
        error="compression.type",
    ),
    Scenario("unknown-acks", "value string", [("a",)], options={"kafka.acks": "2"}, error="acks"),
)
