"""``kafkaprod read``: print the records of a topic."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_kafka_sink.cli.kafka_options import ConnectionArguments, connected_client
from spark_kafka_sink.cli.option_fields import cli_option, command
from spark_kafka_sink.common.delivery_status import partition_name
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.kafka.logs.topic_reader import OffsetRange, TopicReader
from spark_kafka_sink.kafka.protocol.isolation_level import IsolationLevel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecord

_DEFAULT_LIMIT = 100
_FOLLOW_OFFSET = -10
"""First offset with --follow: ten offsets before the end of each partition."""
_POLL_S = 0.3
"""Seconds between two checks for new records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArguments(ConnectionArguments):
    """Arguments of `kafkaprod read`."""

    topic: Annotated[str, typer.Argument(help="Topic to read.")]
    limit: int | None = cli_option(
        f"Maximum number of records; default: {_DEFAULT_LIMIT}, with --follow unlimited.",
        min=1,
        metavar="NUMBER",
    )
    partition: int | None = cli_option("Partition; default: all.", min=0, metavar="NUMBER")
    offset: int | None = cli_option(
        "First offset; a negative number counts from the end of each partition. Default: "
        f"0, with --follow {_FOLLOW_OFFSET}.",
        metavar="NUMBER",
    )
    follow: bool = cli_option("Wait for new records, until Ctrl-C.", False, "--follow", "-f")
    uncommitted: bool = cli_option("Include open and aborted transactions.", False, "--uncommitted")
    as_json: bool = cli_option("Print one JSON object for each record.", False, "--json")

    @property
    def first_offset(self) -> int:
        """The offset at which to start."""
        if self.offset is not None:
            return self.offset
        return _FOLLOW_OFFSET if self.follow else 0


@command
def read(arguments: ReadArguments) -> None:
    """Print the records of a topic, without joining a consumer group.

    Each line contains partition and offset, time, key, value and headers. Without --follow, reading
    stops at the current end of each partition.
    """
    limit = arguments.limit or (None if arguments.follow else _DEFAULT_LIMIT)
    uncommitted, committed = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
    isolation = uncommitted if arguments.uncommitted else committed
    with connected_client(arguments) as client:
        reader = TopicReader(client, arguments.topic, isolation, arguments.timeout)
        ranges = reader.ranges(arguments.first_offset, arguments.partition)
        records = (
            _follow_records(client, reader, ranges)
            if arguments.follow
            else _read_all(reader, ranges)
        )
        line = _json_line if arguments.as_json else _record_line
        count = 0
        for record in islice(records, limit):
            typer.echo(line(record))
            count += 1
        is_cut = not (arguments.limit or arguments.follow) and next(records, None) is not None
    note = "; there are more: set --limit, --partition or --offset" if is_cut else ""
    typer.echo(f"kafkaprod: {plural(count, 'record')}{note}", err=True)


def _read_all(reader: TopicReader, ranges: tuple[OffsetRange, ...]) -> Iterator[ConsumerRecord]:
    return chain.from_iterable(map(reader.records, ranges))


def _follow_records(
    client: BlockingClient, reader: TopicReader, ranges: tuple[OffsetRange, ...]
) -> Iterator[ConsumerRecord]:
    """Yield the records in the ranges, and afterwards new records indefinitely."""
    while True:
        yield from _read_all(reader, ranges)
        client.pause(_POLL_S, None)
        ends = [(span.end, reader.bounds(span.topic_partition.partition)) for span in ranges]
        ranges = tuple(replace(now, start=min(end, now.end)) for end, now in ends)


def _record_line(record: ConsumerRecord) -> str:
    """Return a record as a line; control characters and invalid UTF-8 are escaped."""
    headers = ", ".join(
        f"{_escape_unprintable(key)}={_display_text(value)}" for key, value in record.headers
    )
    parts = (
        partition_name(record.topic, record.partition) + f"@{record.offset}",
        _format_time(record.timestamp),
        f"key={_display_text(record.key)}",
        f"value={_display_text(record.value)}",
        *((f"headers={headers}",) if headers else ()),
    )
    return "  ".join(parts)


def _display_text(data: bytes | None) -> str:
    return "null" if data is None else _escape_unprintable(data.decode("utf-8", "backslashreplace"))


def _escape_unprintable(text: str) -> str:
    """Escape characters that a terminal would not print unchanged."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _format_time(moment: datetime | int) -> str:
    if isinstance(moment, int):
        return str(moment)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json_line(record: ConsumerRecord) -> str:
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _format_time(record.timestamp),
        "key": _json_text(record.key),
        "value": _json_text(record.value),
        "headers": [{"key": key, "value": _json_text(value)} for key, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False)


def _json_text(data: bytes | None) -> Any:
    """Return UTF-8 bytes as a string.

    Other bytes become an object with the field `base64`.
    """
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
