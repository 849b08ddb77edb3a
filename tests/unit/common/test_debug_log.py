"""The contexts and events of kafka.debug."""

import logging
import subprocess
import sys

import pytest

from spark_kafka_sink.common.debug_log import DebugContext, DebugLog
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.sink_config import ProducerConfig


def contexts(text: str) -> tuple[DebugContext, ...]:
    options = {"kafka.bootstrap.servers": "a:1", "kafka.debug": text}
    return ProducerConfig.parse(options).debug


def test_contexts_are_a_list_in_any_case_and_order() -> None:
    assert contexts("") == ()
    assert contexts(" eos, MSG,msg ,") == (DebugContext.MSG, DebugContext.EOS)
    assert contexts("msg,all") == tuple(DebugContext)


def test_unknown_context_error_has_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.debug contains 'brokr'.*Did you mean broker\?"):
        contexts("msg,brokr")
    with pytest.raises(ConfigError) as caught:
        contexts("genric")
    assert caught.value.hint is None


def test_every_librdkafka_name_is_accepted() -> None:
    """Its option `debug`, and `auth`, which its introduction recommends with `broker`."""
    names = (
        "generic,broker,topic,metadata,feature,queue,msg,protocol,cgrp,security,fetch,interceptor,"
        "plugin,consumer,admin,eos,mock,assignor,conf,telemetry"
    )
    assert contexts(names) == contexts("all") == tuple(DebugContext)
    assert contexts("generic,feature,auth") == (DebugContext.BROKER, DebugContext.SECURITY)
    assert contexts("generic,cgrp") == ()


def test_disabled_context_has_no_emitter() -> None:
    debug = DebugLog([DebugContext.MSG], session="s1")
    assert [context for context in DebugContext if getattr(debug, context)] == [DebugContext.MSG]


def test_event_is_one_message_that_begins_with_the_ids(caplog: pytest.LogCaptureFixture) -> None:
    debug = DebugLog([DebugContext.MSG], session="s1")
    assert debug.msg is not None
    debug.msg("append", partition="t-0", records=3)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("spark_kafka_sink.debug.msg", logging.DEBUG)
    assert record.getMessage() == "append session=s1 partition=t-0 records=3"


def test_events_go_to_stderr_without_logging_configuration() -> None:
    code = (
        "from spark_kafka_sink.common.debug_log import DebugContext, DebugLog\n"
        "DebugLog([DebugContext.EOS]).eos('bump', epoch=3)\n"
        "DebugLog([DebugContext.EOS]).eos('bump', epoch=4)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert [line.split("spark_kafka_sink.debug.eos ")[1] for line in lines] == [
        "bump epoch=3",
        "bump epoch=4",
    ]
