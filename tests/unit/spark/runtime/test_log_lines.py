"""Log lines if logging is not configured."""

import re
import subprocess
import sys

import pytest

WARN = (
    "import logging, spark_kafka_sink.spark as s\n"
    "log = logging.getLogger('spark_kafka_sink.config.known_options')\n"
    "{}\n"
    "log.warning('Option %s is unknown', 'x')\n"
    "log.info('not shown')\n"
)
MINE = (
    "log.addHandler(logging.StreamHandler())\n"
    "log.handlers[0].setFormatter(logging.Formatter('mine %(message)s'))"
)
SUCCESS = (
    "import logging, spark_kafka_sink.spark.runtime.log_lines as s, spark_kafka_sink.spark\n"
    "log = logging.getLogger('spark_kafka_sink')\n"
    "{}\n"
    "s.log_success('the write is done:\\n  5 persisted', watched={})\n"
)


def printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr


def test_line_contains_time_level_and_logger() -> None:
    time = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d"
    line = time + r" WARN spark_kafka_sink\.config\.known_options: Option x is unknown\n"
    assert re.fullmatch(line, printed(WARN.format("")))


@pytest.mark.parametrize(
    "own",
    [
        "logging.basicConfig(format='mine %(message)s')",
        MINE,
    ],
    ids=["root", "one logger"],
)
def test_configured_logging_is_not_changed(own: str) -> None:
    assert printed(WARN.format(own)) == "mine Option x is unknown\n"


def test_disabled_logger_stays_silent() -> None:
    own = "log.propagate = False; log.addHandler(logging.NullHandler())"
    assert printed(WARN.format(own)) == ""


def test_debug_lines_are_printed_once() -> None:
    code = (
        "import spark_kafka_sink.spark\n"
        "from spark_kafka_sink.common.debug_log import DebugContext, DebugLog\n"
        "DebugLog([DebugContext.MSG]).msg('send', partition='t-0')\n"
    )
    (line,) = printed(code).splitlines()
    event = r"DEBUG spark_kafka_sink\.debug\.msg: send partition=t-0"
    assert re.fullmatch(rf"\d\d/\d\d/\d\d \d\d:\d\d:\d\d\.\d{{3}} {event}", line)


def test_terminal_gets_plain_lines() -> None:
    text = printed(SUCCESS.format("", True))
    assert text == "kafkaprod: the write is done:\n  5 persisted\n"


def test_other_outputs_get_lines_with_level_info() -> None:
    line = r"\S+ \S+ INFO spark_kafka_sink\.summary: the write is done:\n  5 persisted\n"
    assert re.fullmatch(line, printed(SUCCESS.format("", False)))


@pytest.mark.parametrize("watched", [True, False])
def test_configured_logging_decides_about_info(watched: bool) -> None:
    own = "logging.basicConfig(format='mine %(message)s')"
    assert printed(SUCCESS.format(own, watched)) == ""
    own = "logging.basicConfig(format='mine %(message)s', level=logging.INFO)"
    assert printed(SUCCESS.format(own, watched)) == "mine the write is done:\n  5 persisted\n"
