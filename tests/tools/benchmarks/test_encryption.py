"""The table of encryption costs."""

from __future__ import annotations

from tools.benchmarks.costs import encryption_figures
from tools.benchmarks.results import Sample, Series


def _series(protocol: str, *seconds: float, failures: tuple[str, ...] = ()) -> Series:
    samples = [Sample(records=1_000_000, seconds=each, cpu_s=each / 2) for each in seconds]
    return Series("one", "lz4", {"protocol": protocol}, samples, list(failures))


def test_ssl_is_compared_with_plaintext() -> None:
    (table,) = encryption_figures([_series("PLAINTEXT", 0.5), _series("SSL", 1.0)]).tables
    assert [row[2:] for row in table.rows] == [
        ("PLAINTEXT", "2.00", "2.00 - 2.00", "1.00x", "0.250", "1.00x"),
        ("SSL", "1.00", "1.00 - 1.00", "0.50x", "0.500", "2.00x"),
    ]


def test_no_cost_if_one_protocol_failed() -> None:
    failed = _series("SSL", failures=("ended with status 1:\nSSL handshake failed\n",))
    (table,) = encryption_figures([_series("PLAINTEXT", 0.5), failed]).tables
    assert [row[3] for row in table.rows] == ["2.00", "failed"]
    assert "one, lz4, protocol SSL, failed 1 times: SSL handshake failed." in table.notes
