"""The user's own partitioner: found by name, called per chunk and topic, its answer checked."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_kafka_sink.client.topic_partition import UNASSIGNED
from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.common.quantity import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from spark_kafka_sink.client.cluster import TopicInfo

    Function = Callable[[pa.BinaryArray | None, pa.BinaryArray, int], Any]


class UserPartitioner:
    """Calls ``function(key, value, partition_count)`` of n rows.

    `key` and `value` are Arrow binary arrays of length n, `key` None where no row has one. The
    answer is an int32 array, of numpy or Arrow, with n partitions in 0 .. partition_count - 1, or
    -1 where the choice is left as for rows without a key. It must depend on nothing but its
    arguments if equal keys are to stay together.

    Raises:
        ConfigError: the function can't be imported here, or can't be called.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._function: Function = _find(name)

    def assign(
        self, topic: TopicInfo, key: pa.BinaryArray | None, value: pa.BinaryArray
    ) -> NDArray[np.int32]:
        """Partition of each row, or UNASSIGNED, shape (n,).

        Raises:
            ColumnError: the function raised, or answered something else than it should.
        """
        try:
            answer = self._function(key, value, topic.partition_count)
        except Exception as error:
            raise self._wrong(f"raised {type(error).__name__}: {error}", topic) from error
        partitions = self._as_numpy(answer, topic)
        if partitions.shape != (len(value),):
            raise self._wrong(
                f"returned shape {partitions.shape} for {plural(len(value), 'row')}; it must "
                "return one partition per row",
                topic,
            )
        wrong = (partitions < UNASSIGNED) | (partitions >= topic.partition_count)
        if wrong.any():
            row = int(wrong.argmax())
            raise self._wrong(
                f"returned partition {int(partitions[row])} for its row {row}; the topic has "
                f"partitions 0 to {topic.partition_count - 1}, and -1 leaves the choice",
                topic,
            )
        return partitions

    def _as_numpy(self, answer: Any, topic: TopicInfo) -> NDArray[np.int32]:
        if isinstance(answer, pa.Array):
            if answer.null_count:
                raise self._wrong("returned nulls", topic)
            answer = np.asarray(answer)
        if not isinstance(answer, np.ndarray) or answer.dtype != np.int32:
            kind = answer.dtype if isinstance(answer, np.ndarray) else type(answer).__name__
            raise self._wrong(
                f"returned {kind}; it must return an int32 array of numpy or Arrow", topic
            )
        return answer

    def _wrong(self, what: str, topic: TopicInfo) -> ColumnError:
        return ColumnError(
            f"the partitioner {self.name} {what}",
            topic=topic.name,
            hint="correct the function, or leave kafka.partitioner out",
        )


def _find(name: str) -> Function:
    module, _, path = name.partition(":")
    try:
        found = attrgetter(path)(import_module(module))
    except Exception as error:
        raise ConfigError(
            f"option kafka.partitioner names {name}, which can't be imported: "
            f"{type(error).__name__}: {error}",
            hint="Put the module on the Python path of the executors, with --py-files or "
            "spark.submit.pyFiles.",
        ) from error
    if not callable(found):
        raise ConfigError(f"option kafka.partitioner names {name}, which is no function")
    function: Function = found
    return function
