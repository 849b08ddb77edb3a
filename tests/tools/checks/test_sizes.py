"""What is too large is named."""

from __future__ import annotations

from pathlib import Path

from tools.checks.sizes import crowded, offenders


def paths(folder: str, count: int) -> list[Path]:
    return [
        Path(folder, "__init__.py"),
        *(Path(folder, f"f{number}.py") for number in range(count)),
    ]


def test_a_folder_holds_sixteen_files_beside_its_own() -> None:
    assert list(crowded([*paths("a", 16), *paths("a/b", 3)])) == []
    assert list(crowded([*paths("a", 17), *paths("b", 1)])) == ["a: 17 Python files, at most 16"]
    assert list(crowded(paths("x/spark_kafka_sink/broker/handlers", 50))) == []


def test_files_functions_and_parameters() -> None:
    assert list(offenders("x = 1\n" * 400, "f")) == []
    assert list(offenders("x = 1\n" * 401, "f")) == ["f:1: 401 lines, at most 400"]
    long = "def f():\n" + "    x = 1\n" * 60
    assert list(offenders(long, "f")) == ["f:1: f has 61 lines, at most 60"]
    many = "class A:\n    def f(self, a, b, c, d, /, e, *, g, h, i): ...\n"
    assert list(offenders(many, "f")) == ["f:2: f has 8 parameters, at most 7"]
