"""What the data source can't do, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from spark_kafka_sink import ConfigError, KafkaProdDataSource

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = KafkaProdDataSource({"kafka.bootstrap.servers": "h:9092", "topic": "t"})


@pytest.mark.parametrize("read", [SOURCE.reader, SOURCE.streamReader])
def test_reading_is_for_another_format(read: Callable[[StructType], object]) -> None:
    with pytest.raises(ConfigError, match=r"only writes.*format\('kafka'\)"):
        read(StructType([]))
