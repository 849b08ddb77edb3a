"""Which findings fail a write before its tasks, and how often brokers are queried."""

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError, KafkaProdError
from spark_kafka_sink.config.enums import PreflightMode
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding
from spark_kafka_sink.diagnostics.planned_write import PlannedWrite
from spark_kafka_sink.diagnostics.preflight import (
    CHECK_VALID_S,
    FAILED_CHECK_VALID_S,
    PreflightCheck,
    first_fatal_error,
)
from tests.support.clock import ManualClock

ERROR = BrokerUnavailableError("nobody is there")
FINE = Finding.ok(CheckStep.TOPIC, "all is well")
DOUBTFUL = Finding.warning(CheckStep.SETTINGS, ERROR)
CERTAIN = Finding.failure(CheckStep.TOPIC, ERROR)
HERE_ALONE = Finding.failure(CheckStep.CONNECT, ERROR, is_local=True)


@pytest.mark.parametrize(
    ("finding", "modes"),
    [
        (FINE, set()),
        (DOUBTFUL, set()),
        (HERE_ALONE, {PreflightMode.FAIL}),
        (CERTAIN, {PreflightMode.AUTO, PreflightMode.FAIL}),
    ],
)
def test_findings_that_fail_a_write(finding: Finding, modes: set[PreflightMode]) -> None:
    stopped = {
        mode for mode in PreflightMode if first_fatal_error([FINE, finding], mode) is not None
    }
    assert stopped == modes


def test_default_fails_only_for_findings_that_apply_to_every_host() -> None:
    with pytest.raises(KafkaProdError, match="nobody is there"):
        PreflightCheck(examine=CountingExaminer(HERE_ALONE, CERTAIN)).check_write(write())
    PreflightCheck(examine=CountingExaminer(HERE_ALONE)).check_write(write())


class CountingExaminer:
    """Counts its calls."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = list(findings)
        self.times = 0

    def __call__(self, _write: PlannedWrite) -> list[Finding]:
        self.times += 1
        return self.findings


def write(**options: str) -> PlannedWrite:
    kafka_options = {"kafka.bootstrap.servers": "kafka:9092", "topic": "t", **options}
    return PlannedWrite(config=SinkConfig.parse(kafka_options), has_key=True)


def test_stream_is_checked_once_per_start_and_a_batch_again_after_a_while() -> None:
    clock, examiner = ManualClock(), CountingExaminer(FINE)
    check = PreflightCheck(clock=clock, examine=examiner)
    check.check_write(write(), of_stream=True, start=1)
    clock.advance(CHECK_VALID_S + 1)
    check.check_write(write(), of_stream=True, start=1)
    assert examiner.times == 1
    check.check_write(write(), of_stream=True, start=2)
    assert examiner.times == 2
    check.check_write(write())
    check.check_write(write(reportPath="elsewhere.json", summary="off"))
    assert examiner.times == 3
    check.check_write(write(topic="other"))
    assert examiner.times == 4


def test_tolerated_failure_is_reported_again_sooner() -> None:
    clock, examiner = ManualClock(), CountingExaminer(HERE_ALONE)
    check = PreflightCheck(clock=clock, examine=examiner)
    check.check_write(write())
    clock.advance(FAILED_CHECK_VALID_S - 1)
    check.check_write(write())
    assert examiner.times == 1
    clock.advance(2)
    check.check_write(write())
    assert examiner.times == 2


def test_fatal_findings_are_checked_again_and_off_disables_the_check() -> None:
    examiner = CountingExaminer(CERTAIN)
    check = PreflightCheck(examine=examiner)
    for _ in range(2):
        with pytest.raises(KafkaProdError):
            check.check_write(write(preflight="fail"), of_stream=True)
    assert examiner.times == 2
    check.check_write(write(preflight="off"))
    assert examiner.times == 2


def test_each_finding_is_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    examiner = CountingExaminer(FINE, DOUBTFUL, HERE_ALONE)
    PreflightCheck(examine=examiner).check_write(write())
    doubtful, certain = caplog.messages
    assert doubtful == "preflight: nobody is there."
    assert certain.startswith("preflight: nobody is there. ")
    assert "preflight=fail" in certain
    PreflightCheck(examine=examiner).check_write(write(), only_errors=True)
    assert caplog.messages[2:] == [certain]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConfigError("the file can't be read", hint="Ship it"), "the file can't be read. Ship it."),
        (ValueError("sentinel"), "the check failed: ValueError."),
    ],
)
def test_failing_check_does_not_fail_the_write(
    error: Exception, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_write: PlannedWrite) -> list[Finding]:
        raise error

    check = PreflightCheck(examine=fails)
    check.check_write(write())
    assert caplog.messages == [f"preflight: {says}"]
    for options in ({"preflight": "fail"}, {"topic.create": "true"}):
        with pytest.raises(type(error)):
            check.check_write(write(**options))
