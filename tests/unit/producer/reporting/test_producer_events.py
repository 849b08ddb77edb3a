"""kafka.debug: the events of a batch, and the ids that connect them."""

import re
from dataclasses import dataclass

import pytest

from spark_kafka_sink.common.debug_log import DebugContext
from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.reporting.producer_events import ProducerEvents
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import world

FIELD = re.compile(r"(\w+)=('[^']*'|\[[^\]]*\]|\([^)]*\)|\S*)")


@dataclass(frozen=True)
class Event:
    context: str
    name: str
    fields: dict[str, str]


def events(caplog: pytest.LogCaptureFixture) -> list[Event]:
    """Return all events, in order."""
    logged = []
    for record in caplog.records:
        if record.name.startswith("spark_kafka_sink.debug."):
            name, _, rest = record.getMessage().partition(" ")
            logged.append(Event(record.name.rpartition(".")[2], name, dict(FIELD.findall(rest))))
    return logged


def named(logged: list[Event], context: str, name: str) -> list[dict[str, str]]:
    return [event.fields for event in logged if (event.context, event.name) == (context, name)]


def test_batch_is_traceable_from_append_to_response(caplog: pytest.LogCaptureFixture) -> None:
    with world(debug="msg,protocol,eos") as sim:
        sim.deliver_batches(3)
        session = sim.session.reporting.events.session
    logged = events(caplog)
    for number in range(3):
        ids = {"session": session, "partition": "t-0", "batch": str(number + 1)}
        ours = [e for e in logged if ids.items() <= e.fields.items() and e.context == "msg"]
        assert [event.name for event in ours] == ["append", "close", "send", "response"]
        append, close, send, answer = (event.fields for event in ours)
        assert (append["records"], close["records"]) == ("+3", "3")
        assert close["reason"] == ("linger" if number == 2 else "full")
        assert send["base_sequence"] == answer["base_sequence"] == str(3 * number)
        assert (answer["error"], answer["offset"]) == ("NONE", str(3 * number))
        request = {"broker": send["broker"], "correlation": send["correlation"]}
        assert request.items() <= answer.items()
        for event in ("send", "receive"):
            (wire,) = [e for e in named(logged, "protocol", event) if request.items() <= e.items()]
            assert wire["api"] == "PRODUCE"
        (assigned,) = [
            e for e in named(logged, "eos", "assign_sequence") if ids.items() <= e.items()
        ]
        assert assigned["base_sequence"] == send["base_sequence"]


def test_retry_is_a_second_send_with_the_same_sequence(caplog: pytest.LogCaptureFixture) -> None:
    with world(debug="msg") as sim:
        sim.fault(Fault(lose=True))
        sim.deliver_batches(1)
    logged = events(caplog)
    first, second = named(logged, "msg", "send")
    assert (first["attempt"], second["attempt"]) == ("1", "2")
    assert first["base_sequence"] == second["base_sequence"] == "0"
    lost, taken = named(logged, "msg", "response")
    assert lost["action"] in {"RETRY", "REFRESH_AND_RETRY"}
    assert (taken["error"], taken["action"]) == ("NONE", "COMPLETE")


def test_split_and_new_epoch_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with world(debug="queue,eos", batch_size=2_000) as sim:
        sim.fault(Fault(error=ErrorCode.message_too_large))
        sim.deliver_batches(2)
        sim.fault(Fault(error=ErrorCode.unknown_producer_id))
        sim.deliver_batches(1)
    logged = events(caplog)
    (split,) = named(logged, "queue", "split")
    assert split["into"] == f"{split['batch']}.0,{split['batch']}.1"
    assert int(split["max_bytes"]) < int(split["bytes"]) <= 2_000
    (bump,) = named(logged, "eos", "bump_epoch")
    assert (bump["partition"], bump["epoch"]) == ("t-0", "1")


def test_corrected_batch_is_not_logged_as_split(caplog: pytest.LogCaptureFixture) -> None:
    topic_partition = TopicPartition("letters", 0)
    batch, piece = (
        ProducerBatch(topic_partition, 0.0, 0, 0, label=label) for label in ((3,), (3, 0))
    )
    listener = ProducerEvents(contexts=[DebugContext.QUEUE])
    listener.on_replaced(batch, [piece], split_size=None)
    logged = events(caplog)
    assert not named(logged, "queue", "split")
    (corrected,) = named(logged, "queue", "correct")
    assert (corrected["batch"], corrected["into"]) == ("3", "3.0")


def test_keyless_batch_is_traceable_to_its_partition(caplog: pytest.LogCaptureFixture) -> None:
    with world(FakeCluster(topics={"t": 1}), debug="msg") as sim:
        sim.deliver_batches(1, None)
    ours = [event for event in events(caplog) if event.fields["batch"] == "1"]
    assert [(event.name, event.fields["partition"]) for event in ours] == [
        ("append", "t--1"),
        ("close", "t--1"),
        ("assign_partition", "t-0"),
        ("send", "t-0"),
        ("response", "t-0"),
    ]


def test_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with world(debug="msg") as sim:
        sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
        sim.send_batches(1)
        with pytest.raises(AuthorizationError):
            sim.finish()
    (failed,) = named(events(caplog), "msg", "fail")
    assert (failed["status"], failed["error"]) == ("not_persisted", "TOPIC_AUTHORIZATION_FAILED")


def test_connections_metadata_and_leaders_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 2})
    with world(cluster, debug="broker,metadata,topic,security") as sim:
        sim.deliver_batches(1)
        client = sim.client.name
    logged = events(caplog)
    assert {event.fields["client"] for event in logged} == {client}
    assert named(logged, "broker", "connect")[0]["node"] == "127.0.0.1:40000"
    assert named(logged, "broker", "ready")[0]["broker"] == "-1"
    assert named(logged, "metadata", "request")[-1]["topics"] == "t"
    assert (
        named(logged, "metadata", "learn")[-1]["brokers"] == "1@127.0.0.1:40001,2@127.0.0.1:40002"
    )
    (topic,) = named(logged, "topic", "topic")
    assert topic["leaders"] == "(1, 2)"
    assert named(logged, "security", "protect")[0]["protocol"] == "PLAINTEXT"


def test_events_contain_no_data(caplog: pytest.LogCaptureFixture) -> None:
    with world(debug="all") as sim:
        sim.deliver([b"sesame-open" * 40], 0)
    assert len(events(caplog)) > 10
    assert "sesame" not in caplog.text


def test_disabled_event_does_not_evaluate_its_arguments() -> None:
    """None has none of the attributes that the event's text needs."""
    trace = ProducerEvents("s")
    trace.on_batch_response(None, None, None, "")  # type: ignore[arg-type]
    trace.on_sent(None, 0, 0, 0.0)  # type: ignore[arg-type]
    trace.on_appended(None, 0)  # type: ignore[arg-type]
    trace.on_closed(None)  # type: ignore[arg-type]
