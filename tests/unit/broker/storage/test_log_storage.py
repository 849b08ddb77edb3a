"""Base classes of storages."""

from typing import Any

import pytest

from spark_kafka_sink.broker.storage.log_storage import LogStorage, StorageBackend


@pytest.mark.parametrize(
    ("base", "missing"), [(LogStorage, "append.*batches"), (StorageBackend, "create.*load")]
)
def test_storages_without_the_required_methods_cannot_be_created(base: Any, missing: str) -> None:
    with pytest.raises(TypeError, match=missing):
        type("Incomplete", (base,), {})()
