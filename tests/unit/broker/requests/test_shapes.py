"""The shapes of requests have the fields of Kafka's schemas."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from spark_kafka_sink.broker.handlers.request_context import ServedApi
from spark_kafka_sink.broker.handlers.served_apis import HANDLERS
from spark_kafka_sink.broker.requests.shapes import BY_PARTITION
from spark_kafka_sink.kafka.protocol.versions import request_type, response_type

PARTITION_LISTS = {"partitions", "partition_data", "partition_indexes"}
ERRORS = {"error_code", "partition_error_code"}


def item_classes(message_class: type[Any]) -> Iterator[tuple[str, type[Any]]]:
    """Yield the name and the class of the items of each list of a message."""
    for name, hint in get_type_hints(message_class).items():
        for list_type in (hint, *get_args(hint)):  # an optional list is a union
            items = [item for item in get_args(list_type) if is_dataclass(item)]
            yield from ((name, item) for item in items if isinstance(item, type))


def names(item_class: type[Any]) -> set[str]:
    return {field.name for field in fields(item_class)}


def partition_fields(handler: ServedApi) -> set[tuple[str, str]]:
    """Return the fields of requests for topics and their partitions, from Kafka's schemas."""
    return {
        (topics, partitions)
        for version in range(handler.versions.lowest, handler.versions.highest + 1)
        for topics, item in item_classes(request_type(handler.api, version))
        for partitions in names(item) & PARTITION_LISTS
    }


def has_partition_errors(handler: ServedApi) -> bool:
    response = response_type(handler.api, handler.versions.lowest)
    topics = [item for _, item in item_classes(response)]
    partitions = [item for topic in topics for _, item in item_classes(topic)]
    return any(names(item) & ERRORS for item in partitions)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=lambda handler: handler.api.name)
def test_every_api_with_errors_of_partitions_has_a_shape(handler: ServedApi) -> None:
    found_fields = partition_fields(handler)
    shape = BY_PARTITION.get(handler.api)
    if shape is not None:
        assert (shape.topics, shape.partitions) in found_fields
    else:
        assert not (found_fields and has_partition_errors(handler))
