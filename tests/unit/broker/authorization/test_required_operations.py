"""Every API of the broker states the operations that a client must be authorized for."""

from spark_kafka_sink.broker.authorization.required_operations import (
    OF_ITEMS,
    OF_PARTITIONS,
    OF_REQUEST,
    WITHOUT_OPERATIONS,
)
from spark_kafka_sink.broker.handlers.served_apis import HANDLERS
from spark_kafka_sink.broker.requests.shapes import BY_ITEM, BY_PARTITION

WITH_OPERATIONS = OF_REQUEST.keys() | OF_PARTITIONS.keys() | OF_ITEMS.keys()


def test_every_api_requires_an_operation_or_is_open_to_all() -> None:
    assert HANDLERS.keys() == WITH_OPERATIONS | WITHOUT_OPERATIONS
    assert not WITH_OPERATIONS & WITHOUT_OPERATIONS


def test_partitions_and_items_that_require_an_operation_can_be_removed_from_requests() -> None:
    """Without a shape, authorization would pass denied partitions and items to the handler."""
    assert BY_PARTITION.keys() >= OF_PARTITIONS.keys()
    assert BY_ITEM.keys() >= OF_ITEMS.keys()
