"""Detection of continuous processing, which is rejected."""

from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.runtime import continuous_processing, internals
from spark_kafka_sink.spark.runtime.internals import is_continuous, latest_query_start

QUERY, EPOCHS = "stream executio", "epoch update th"


def process(proc: Path, number: str, parent: str, *threads: str) -> None:
    for place, name in enumerate(threads):
        task = proc / number / "task" / f"{number}{place}"
        task.mkdir(parents=True)
        (task / "comm").write_text(f"{name}\n")
    (proc / number / "stat").write_text(f"{number} (a) (name) S {parent} 1 1 0 -1")


def tree(proc: Path, *queries: str) -> Path:
    """Create /proc entries for a Python worker, its daemon, the JVM and their parent."""
    process(proc, "self", "30", "python")
    process(proc, "30", "1", "python")
    process(proc, "1", "0", "java", "dispatcher", *queries)
    return proc


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        ((QUERY, EPOCHS), True),
        ((QUERY, QUERY, EPOCHS, EPOCHS), True),
        ((), False),
        ((QUERY,), False),
        ((QUERY, QUERY, EPOCHS), False),
    ],
)
def test_stream_is_continuous_if_every_query_is(
    queries: tuple[str, ...], expected: bool, tmp_path: Path
) -> None:
    assert is_continuous(tree(tmp_path, *queries)) is expected


def test_continuous_stream_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    continuous_processing.reject_continuous()
    monkeypatch.setattr(internals, "is_continuous", lambda: True)
    with pytest.raises(ConfigError, match=r"processingTime"):
        continuous_processing.reject_continuous()


def test_nothing_is_detected_without_proc_or_a_thread(tmp_path: Path) -> None:
    assert not is_continuous(tmp_path / "none")
    (tree(tmp_path, QUERY) / "1" / "task" / "99").mkdir()
    assert not is_continuous(tmp_path)


def test_latest_query_has_the_last_started_thread(tmp_path: Path) -> None:
    proc = tree(tmp_path, QUERY, EPOCHS, QUERY, QUERY)
    for number, started in {"12": "300", "13": "900", "14": "500", "15": "500"}.items():
        fields = " ".join(["0"] * 18)
        (proc / "1" / "task" / number / "stat").write_text(f"1 (a ) b) S {fields} {started} 7")
    assert latest_query_start(proc) == (500, 15)
    (proc / "1" / "task" / "15" / "stat").unlink()
    assert latest_query_start(proc) == (500, 14)
    assert latest_query_start(tmp_path / "none") is None
