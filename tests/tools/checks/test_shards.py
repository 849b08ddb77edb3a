"""How a phase's files are dealt out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.checks.phases import PHASES, Phase
from tools.checks.shards import ROOT, deal, load_durations, shards_of, store_durations

if TYPE_CHECKING:
    from pathlib import Path


def test_every_shard_has_about_as_much_to_do() -> None:
    durations = {f"f{number}": float(number) for number in range(1, 21)}
    bins = deal([(file,) for file in durations], durations, 4)
    loads = [sum(durations[file] for file in files) for files in bins]
    assert sorted(file for files in bins for file in files) == sorted(durations)
    assert max(loads) - min(loads) <= 3


def test_no_shard_is_empty() -> None:
    assert deal([("a",), ("b",)], {}, 5) == [("a",), ("b",)]
    assert deal([], {}, 5) == []


def test_what_belongs_together_goes_to_one_shard(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("test_a.py", "test_b.py", "test_c.py", "folder/test_d.py"):
        (tmp_path / name).touch()
    names = ("test_a.py", "test_b.py", "test_c.py", "folder")
    phase = Phase(name="p", tests=names, together=(("test_a.py", "folder"),), shards=3)
    dealt = [shard.tests for shard in shards_of(phase, {"test_b.py": 9.0}, tmp_path)]
    assert dealt == [("test_b.py",), ("folder/test_d.py", "test_a.py"), ("test_c.py",)]


def test_the_phases_hold_every_test_file_once() -> None:
    durations = load_durations()
    newest = [
        file
        for phase in PHASES
        if phase.name != "spark-4.1"
        for shard in shards_of(phase, durations)
        for file in shard.tests
    ]
    there = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(newest) == sorted(there)


def test_what_a_phase_leaves_out_is_there_and_left_out() -> None:
    for phase in PHASES:
        named = (*phase.without, *(path for group in phase.together for path in group))
        assert all((ROOT / path).exists() for path in named)
        files = {file for shard in shards_of(phase, {}) for file in shard.tests}
        for path in phase.without:
            assert not any(file == path or file.startswith(f"{path}/") for file in files)


def test_a_command_is_a_shard_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()
    phase = Phase(name="p", commands=(("-m", "x"), ("-m", "y")), tests=("test_a.py", "gone"))
    first, second, third = shards_of(phase, {"test_a.py": 7.0}, tmp_path)
    assert [first.command, second.command, third.command] == [("-m", "x"), ("-m", "y"), ()]
    assert (third.tests, third.seconds, third.missing) == (("test_a.py",), 7.0, ("gone",))
    assert [str(each) for each in (first, third)] == ["p 1/3", "p 3/3"]


def test_durations_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "durations.json"
    store_durations({"b": 1.26, "a": 2.0}, path)
    assert load_durations(path) == {"a": 2.0, "b": 1.3}
    assert path.read_text().index('"a"') < path.read_text().index('"b"')
