"""The table of what encryption costs."""

from __future__ import annotations

from tools.benchmarks.encryption import Cost, encryption_table
from tools.benchmarks.processes import ContestantError
from tools.benchmarks.results import Sample


def _measured(seconds: float, cpu_s: float) -> Sample:
    return Sample(records=1_000_000, seconds=seconds, cpu_s=cpu_s)


def _fail() -> Sample:
    raise ContestantError("ended with status 1:\nSSL handshake failed\n")


def test_the_cost_stands_below_the_two_protocols() -> None:
    cost = Cost.of("one", "none")
    cost.series["PLAINTEXT"].add(lambda: _measured(0.5, 0.2), lambda _: None)
    cost.series["SSL"].add(lambda: _measured(1.0, 0.3), lambda _: None)
    table = encryption_table([cost])
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [row[2:] for row in table.rows] == [
        ("PLAINTEXT", "2.00", "2.00 - 2.00", "0.200"),
        ("SSL", "1.00", "1.00 - 1.00", "0.300"),
        ("", "0.50x", "", "+0.100 (1.50x)"),
    ]
    assert cost.to_dict()["SSL"]["median_records_per_s"] == 1_000_000


def test_where_one_protocol_failed_there_is_no_cost() -> None:
    cost = Cost.of("one", "lz4")
    cost.series["PLAINTEXT"].add(lambda: _measured(0.5, 0.2), lambda _: None)
    cost.series["SSL"].add(_fail, lambda _: None)
    table = encryption_table([cost])
    assert [row[3] for row in table.rows] == ["2.00", "failed"]
    assert "one, lz4, SSL, failed 1 times: SSL handshake failed." in table.notes
