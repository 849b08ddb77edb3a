"""Brokers on a folder, and the contents of its files."""

import hashlib
from pathlib import Path
from typing import Any

from spark_kafka_sink import EmbeddedBroker


def contents(folder: Path) -> dict[str, str | None]:
    """Return the digests of all files: Kafka's index files have gigabytes of zeros."""
    return {
        str(path.relative_to(folder)): _digest(path) if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def start(folder: Path, **options: Any) -> EmbeddedBroker:
    return EmbeddedBroker(data_dir=str(folder), **options)
