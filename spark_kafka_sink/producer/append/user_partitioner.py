"""Partitions chosen by a function of the user."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.producer.append.route import Partitions

    Function = Callable[[pa.BinaryArray | None, pa.BinaryArray, int], Any]


class UserPartitioner:
    """Calls ``function(key, value, partition_count)`` for n rows.

    `key` and `value` are Arrow binary arrays of length n; `key` is None if no row has a key. The
    function returns a NumPy or Arrow int32 array of length n: partitions below `partition_count`,
    or -1 for rows to be treated like rows without a key. If equal keys are to share a partition,
    the result must depend only on the arguments.

    Raises:
        ConfigError: the function cannot be imported, or is not callable.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._function: Function = _import_function(name)

    def assign(
        self, topic: ClusterTopic, key: pa.BinaryArray | None, value: pa.BinaryArray
    ) -> Partitions:
        """Return the partition of each row, or UNASSIGNED, shape (n,).

        Raises:
            ColumnError: the function raised an exception, or returned an invalid result.
        """
        try:
            result = self._function(key, value, topic.partition_count)
        except Exception as error:
            raise self._function_error(f"raised {type(error).__name__}: {error}", topic) from error
        partitions = self._as_numpy(result, topic)
        if partitions.shape != (len(value),):
            raise self._function_error(
                f"returned shape {partitions.shape} for {plural(len(value), 'row')}; it must "
                "return one partition per row",
                topic,
            )
        wrong = (partitions < UNASSIGNED) | (partitions >= topic.partition_count)
        if wrong.any():
            row = int(wrong.argmax())
            raise self._function_error(
                f"returned partition {int(partitions[row])} for its row {row}; the topic has "
                f"partitions 0 to {topic.partition_count - 1}, and -1 means any partition",
                topic,
            )
        return partitions

    def _as_numpy(self, result: Any, topic: ClusterTopic) -> Partitions:
        if isinstance(result, pa.Array):
            if result.null_count:
                raise self._function_error("returned nulls", topic)
            result = np.asarray(result)
        if not isinstance(result, np.ndarray) or result.dtype != np.int32:
            kind = result.dtype if isinstance(result, np.ndarray) else type(result).__name__
            raise self._function_error(
                f"returned {kind}; it must return a NumPy or Arrow int32 array", topic
            )
        return result

    def _function_error(self, problem: str, topic: ClusterTopic) -> ColumnError:
        return ColumnError(
            f"the partitioner {self.name} {problem}",
            topic=topic.name,
            hint="Correct the function, or remove kafka.partitioner.",
        )


def _import_function(name: str) -> Function:
    module, _, path = name.partition(":")
    try:
        function = attrgetter(path)(import_module(module))
    except Exception as error:
        raise ConfigError(
            f"option kafka.partitioner is {name}, which cannot be imported: "
            f"{type(error).__name__}: {error}",
            hint="Put the module on the Python path of the executors, with --py-files or "
            "spark.submit.pyFiles.",
        ) from error
    if not callable(function):
        raise ConfigError(f"option kafka.partitioner is {name}, which is not callable")
    return cast("Function", function)
