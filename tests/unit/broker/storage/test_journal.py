"""The journal with and without a file."""

from pathlib import Path

import pytest

from spark_kafka_sink.broker.storage.journal import Journal


def test_journal_keeps_the_latest_values(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    for number in range(50_000):
        journal.put("count", ("a", number % 3), {"n": number})
    journal.put("count", ("a", 1), None)
    assert path.stat().st_size < 20_000 * 60
    with pytest.raises(BlockingIOError):
        Journal(path)
    journal.close()
    with path.open("ab") as file:
        file.write(b'["count",["a",0],{"n"')
    again = Journal(path)
    assert again.all("count") == {("a", 0): {"n": 49_998}, ("a", 2): {"n": 49_997}}
    assert again.all("else") == {}
    again.close()
    assert Journal(path).all("count") == again.all("count")


def test_journal_without_a_file_keeps_nothing() -> None:
    journal = Journal()
    journal.put("kind", ("key",), 1)
    assert journal.all("kind") == {}
