from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.worker_process import latest_query_start, reject_continuous

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
    """Create /proc entries for a Python worker, its daemon, the JVM and their parent."""
    _process(proc, "self", "30", "python")
    _process(proc, "30", "1", "python")
    _process(proc, "1", "0", "java", "dispatcher", *queries)
    return proc


@pytest.mark.parametrize("queries", [(QUERY, EPOCHS), (QUERY, QUERY, EPOCHS, EPOCHS)])
def test_write_is_rejected_if_every_query_is_continuous(
    tmp_path: Path, queries: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=r"processingTime"):
        reject_continuous(_tree(tmp_path, *queries))


@pytest.mark.parametrize("queries", [(), (QUERY,), (QUERY, QUERY, EPOCHS)])
def test_accepted_if_another_query_may_own_it(tmp_path: Path, queries: tuple[str, ...]) -> None:
    reject_continuous(_tree(tmp_path, *queries))


def test_nothing_is_detected_without_proc(tmp_path: Path) -> None:
    reject_continuous(tmp_path / "none")


def test_thread_that_ends_during_the_check(tmp_path: Path) -> None:
    (_tree(tmp_path, QUERY) / "1" / "task" / "99").mkdir()
    reject_continuous(tmp_path)


def test_latest_query_has_the_last_started_thread(tmp_path: Path) -> None:
    proc = _tree(tmp_path, QUERY, EPOCHS, QUERY, QUERY)
    for number, started in {"12": "300", "13": "900", "14": "500", "15": "500"}.items():
        fields = " ".join(["0"] * 18)
        (proc / "1" / "task" / number / "stat").write_text(f"1 (a ) b) S {fields} {started} 7")
    assert latest_query_start(proc) == (500, 15)
    (proc / "1" / "task" / "15" / "stat").unlink()
    assert latest_query_start(proc) == (500, 14)
    assert latest_query_start(tmp_path / "none") is None
