"""Tables for the terminal."""

import pytest

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.tables import print_report, wide_console
from spark_kafka_sink.report.write_status import WriteStatus

TEXTS = ("a batch failed [topic=events, partition=3]", "[/data] [red]", "orders:fire:1")


@pytest.mark.parametrize("text", TEXTS)
def test_markup_and_emoji_in_texts_are_printed_unchanged(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = DeliveryReport(status=WriteStatus.FAILED, error=text, query_name=text, batch_id=1)
    print_report(report)
    assert capsys.readouterr().out.count(text) == 2


def test_width_is_known_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert wide_console().width == 160
    monkeypatch.setenv("COLUMNS", "70")
    assert wide_console().width == 70
