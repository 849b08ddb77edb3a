"""DescribeLogDirs 1-5: log sizes, and the size of the volume that holds the data folder, if any."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.broker.partition.partition import Topic
    from spark_kafka_sink.protocol.messages import Values


IN_MEMORY = "/memory"
"""The reported folder of a broker without a data folder."""


def describe_log_dirs(context: RequestContext) -> Answer:
    """Handle the DescribeLogDirs API."""
    folder = context.cluster.config.data_dir
    volume = shutil.disk_usage(folder) if folder else None
    directory = {
        "error_code": ErrorCode.none,
        "log_dir": folder or IN_MEMORY,
        "topics": list(_topics(context)),
        "total_bytes": volume.total if volume else -1,
        "usable_bytes": volume.free if volume else -1,
    }
    return {"results": [directory]}


def _topics(context: RequestContext) -> Iterator[Values]:
    asked = context.request.topics
    requested = None if asked is None else {item.topic: set(item.partitions) for item in asked}
    for topic in context.cluster.topics.all():
        if requested is None or topic.name in requested:
            partitions = list(
                _partitions(context, topic, None if requested is None else requested[topic.name])
            )
            if partitions:
                yield {"name": topic.name, "partitions": partitions}


def _partitions(
    context: RequestContext, topic: Topic, requested: set[int] | None
) -> Iterator[Values]:
    for partition in topic.partitions:
        if context.node in partition.replicas and (
            requested is None or partition.index in requested
        ):
            yield {
                "partition_index": partition.index,
                "partition_size": partition.log.size,
                "offset_lag": 0,
                "is_future_key": False,
            }


DESCRIBE_LOG_DIRS = Handler(
    api=ApiKey.DESCRIBE_LOG_DIRS, versions=VersionRange(1, 5), handle=describe_log_dirs
)
