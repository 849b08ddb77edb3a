from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.plan import refuse_continuous

if TYPE_CHECKING:
    from pathlib import Path

QUERY, EPOCHS = "stream executio", "epoch update th"


def _process(proc: Path, number: str, parent: str, *threads: str) -> None:
    for place, name in enumerate(threads):
        task = proc / number / "task" / f"{number}{place}"
        task.mkdir(parents=True)
        (task / "comm").write_text(f"{name}\n")
    (proc / number / "stat").write_text(f"{number} (a) (name) S {parent} 1 1 0 -1")


def _tree(proc: Path, *queries: str) -> Path:
    """A Python worker, its daemon, the JVM and what started it."""
    _process(proc, "self", "30", "python")
    _process(proc, "30", "1", "python")
    _process(proc, "1", "0", "java", "dispatcher", *queries)
    return proc


@pytest.mark.parametrize("queries", [(QUERY, EPOCHS), (QUERY, QUERY, EPOCHS, EPOCHS)])
def test_where_every_query_is_continuous_it_is_refused(
    tmp_path: Path, queries: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=r"processingTime"):
        refuse_continuous(_tree(tmp_path, *queries))


@pytest.mark.parametrize("queries", [(), (QUERY,), (QUERY, QUERY, EPOCHS)])
def test_where_it_may_be_another_it_is_not(tmp_path: Path, queries: tuple[str, ...]) -> None:
    refuse_continuous(_tree(tmp_path, *queries))


def test_without_proc_nothing_is_seen(tmp_path: Path) -> None:
    refuse_continuous(tmp_path / "none")


def test_a_thread_that_ends_meanwhile(tmp_path: Path) -> None:
    (_tree(tmp_path, QUERY) / "1" / "task" / "99").mkdir()
    refuse_continuous(tmp_path)
