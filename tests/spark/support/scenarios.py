"""Scenarios with equal results for `format("kafka")` and `format("kafkaprod")`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

HEADERS = "headers array<struct<key:string,value:binary>>"
KEYS = [None, "", "a", "key", "N14228", "Grüße", "键", "k" * 200]
_OLD = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
_NUMBERS = range(200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Rows and options of a write.

    Topics are "one", "two", ... in the `topic` column and the topic option; tests add a prefix.
    `fixed_partitions`: the partition depends only on the row, so it must be equal in both formats.
    `error`: text of the expected error in both formats. `early`: fail before any task.
    """

    name: str
    schema: str
    rows: list[tuple[Any, ...]]
    topic: str | None = "one"
    options: dict[str, str] = field(default_factory=dict)
    fixed_partitions: bool = True
    error: str | None = None
    early: bool = False


ACCEPTED = (
    Scenario(
        name="string-values",
        schema="value string",
        rows=[("",), ("a",), ("Grüße",), ("x" * 10_000,)],
        fixed_partitions=False,
    ),
    Scenario(
        name="binary-values",
        schema="value binary",
        rows=[(b"",), (b"\x00\xff",), (bytes(range(256)) * 40,)],
        fixed_partitions=False,
    ),
    Scenario(
        name="string-keys",
        schema="key string, value string",
        rows=[(key, f"v{i}") for i, key in enumerate(KEYS) if key is not None],
    ),
    Scenario(
        name="binary-keys",
        schema="key binary, value binary",
        rows=[(bytes([i, 255 - i] * (i % 7)), bytes([i])) for i in _NUMBERS],
    ),
    Scenario(
        name="null-keys-between-keys",
        schema="key string, value string",
        rows=[(key, "v") for key in KEYS] * 3,
        fixed_partitions=False,
    ),
    Scenario(
        name="all-keys-null",
        schema="key string, value string",
        rows=[(None, "a"), (None, "b")],
        fixed_partitions=False,
    ),
    Scenario(
        name="tombstones",
        schema="key string, value binary",
        rows=[("a", None), ("b", b""), ("c", b"x"), ("a", None)],
    ),
    Scenario(
        name="all-values-null",
        schema="value string",
        rows=[(None,), (None,)],
        fixed_partitions=False,
    ),
    Scenario(
        name="topic-column",
        schema="topic string, key string, value string",
        rows=[("one", "a", "1"), ("two", "a", "2"), ("one", "b", "3"), ("three", "a", "4")],
        topic=None,
    ),
    Scenario(
        name="many-topics",
        schema="topic string, key string, value string",
        rows=[(f"topic-{i % 7}", f"k{i}", f"v{i}") for i in _NUMBERS],
        topic=None,
    ),
    Scenario(
        name="topic-option-over-column",
        schema="topic string, key string, value string",
        rows=[("two", "a", "1"), ("three", "b", "2")],
    ),
    Scenario(
        name="topic-option-over-null-topics",
        schema="topic string, key string, value string",
        rows=[(None, "a", "1"), ("two", "b", "2")],
    ),
    Scenario(
        name="topic-option-over-column-of-another-type",
        schema="topic binary, key string, value string",
        rows=[(b"two", "a", "1")],
    ),
    Scenario(
        name="partition-column",
        schema="partition int, key string, value string",
        rows=[(i % 4, "same key", f"v{i}") for i in _NUMBERS],
    ),
    Scenario(
        name="null-partition-means-partitioner",
        schema="partition int, key string, value string",
        rows=[(None, "a", "1"), (3, "a", "2"), (None, "b", "3"), (0, None, "4")],
    ),
    Scenario(
        name="all-partitions-null",
        schema="partition int, key string, value string",
        rows=[(None, f"k{i}", f"v{i}") for i in _NUMBERS],
    ),
    Scenario(
        name="partition-and-topic-columns",
        schema="topic string, partition int, value string",
        rows=[("one", 0, "1"), ("two", 3, "2"), ("one", 2, "3")],
        topic=None,
    ),
    Scenario(
        name="headers",
        schema=f"key string, value string, {HEADERS}",
        rows=[
            ("a", "1", [("h", b"x")]),
            ("b", "2", [("h", b"x"), ("h", b"y"), ("other", b"")]),
            ("c", "3", None),
            ("d", "4", []),
            ("e", None, [("only", None), ("", b"empty key")]),
        ],
    ),
    Scenario(
        name="all-headers-null",
        schema=f"key string, value string, {HEADERS}",
        rows=[("a", "1", None), ("b", "2", None)],
    ),
    Scenario(
        name="include-headers-option",
        schema=f"key string, value string, {HEADERS}",
        rows=[("a", "1", [("h", b"x")])],
        options={"includeHeaders": "true"},
    ),
    Scenario(
        name="columns-in-any-order-and-extra-ones",
        schema="n bigint, value string, tags map<string,int>, key string, s struct<a:int,b:date>",
        rows=[(1, "v", {"a": 1}, "k", (1, None)), (2, "w", None, "l", None)],
    ),
    Scenario(
        name="timestamp-column-ignored",
        schema="key string, value string, timestamp timestamp, offset bigint, timestampType int",
        rows=[("a", "1", _OLD, 7, 0), ("b", "2", None, 8, 1)],
    ),
    Scenario(
        name="timestamp-of-another-type-ignored",
        schema="key string, value string, timestamp string",
        rows=[("a", "1", "yesterday")],
    ),
    Scenario(name="no-rows", schema="key string, value string", rows=[]),
    Scenario(
        name="producer-options",
        schema="key string, value string",
        rows=[(f"k{i}", "v" * i) for i in _NUMBERS],
        options={
            "kafka.acks": "1",
            "kafka.compression.type": "lz4",
            "kafka.linger.ms": "20",
            "kafka.batch.size": "1000",
            "kafka.client.id": "scenario",
        },
    ),
)

_SHORT = {"kafka.max.block.ms": "2000"}

FAILING = (
    Scenario(
        name="no-value-column",
        schema="key string, Value string",
        rows=[("a", "1")],
        error="Required attribute 'value' not found",
        early=True,
    ),
    Scenario(
        name="no-topic-anywhere",
        schema="value string",
        rows=[("a",)],
        topic=None,
        error="topic option required when no 'topic' attribute is present",
        early=True,
    ),
    *(
        Scenario(
            name=f"wrong-type-{name}-{number}",
            schema=f"{name} {kind}" if name == "value" else f"value string, {name} {kind}",
            rows=[],
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
        name="null-topic",
        schema="topic string, value string",
        rows=[("one", "a"), (None, "b")],
        topic=None,
        error="null topic",
    ),
    Scenario(
        name="negative-partition",
        schema="partition int, value string",
        rows=[(-1, "a")],
        options=_SHORT,
        error="-1",
    ),
    Scenario(
        name="partition-out-of-range",
        schema="partition int, value string",
        rows=[(4, "a")],
        options=_SHORT,
        error="4",
    ),
    Scenario(
        name="header-without-key",
        schema=f"value string, {HEADERS}",
        rows=[("a", [("h", b"x"), (None, b"y")])],
        error="",
    ),
    Scenario(
        name="record-too-large",
        schema="value string",
        rows=[("x" * 3_000,)],
        options={"kafka.max.request.size": "2000"},
        error="max.request.size",
    ),
    Scenario(
        name="serializer",
        schema="value string",
        rows=[("a",)],
        options={"kafka.key.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        error="key.serializer",
        early=True,
    ),
    Scenario(
        name="unknown-codec",
        schema="value string",
        rows=[("a",)],
        options={"kafka.compression.type": "brotli"},
        error="compression.type",
    ),
    Scenario(
        name="unknown-acks",
        schema="value string",
        rows=[("a",)],
        options={"kafka.acks": "2"},
        error="acks",
    ),
)
