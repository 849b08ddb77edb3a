from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.spark.worker_context import only_errors_are_logged

if TYPE_CHECKING:
    from pathlib import Path


def _process(proc: Path, name: str, parent: int, *words: str) -> None:
    (proc / name).mkdir(parents=True)
    (proc / name / "cmdline").write_text("\0".join(words))
    (proc / name / "stat").write_text(f"7 (a (strange) name) S {parent} 7 7")


@pytest.mark.parametrize(
    ("words", "quiet"),
    [
        (("java", "--conf", "spark.log.level=ERROR", "pyspark-shell"), True),
        (("java", "--conf", "spark.log.level=WARN", "pyspark-shell"), False),
        (("java", "pyspark-shell"), False),
    ],
)
def test_the_level_of_the_jvm_above(words: tuple[str, ...], quiet: bool, tmp_path: Path) -> None:
    _process(tmp_path, "self", 20, "python", "-m", "pyspark.daemon")
    _process(tmp_path, "20", 10, *words)
    _process(tmp_path, "10", 1, "python", "job.py")
    assert only_errors_are_logged(tmp_path) is quiet


def test_a_machine_without_proc(tmp_path: Path) -> None:
    assert not only_errors_are_logged(tmp_path)
