"""The fixture `kafka_broker` in the tests of other projects."""

import pytest

from tests.support.python import run_python

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "spark_kafka_sink.pytest_plugin", "-p", "no:kafkaprod", "-p", "no:timeout")

TESTS = """
    import socket
    import pytest
    from spark_kafka_sink import UnknownTopicError

    pytestmark = pytest.mark.kafka_broker(topics={"a": 2})

    def test_a_broker_listens(kafka_broker):
        host, port = kafka_broker.bootstrap_servers.split(":")
        socket.create_connection((host, int(port)), 5).close()
        assert kafka_broker.end_offsets("a") == [0, 0]

    @pytest.mark.kafka_broker(nodes=3, replication_factor=3)
    class TestThree:
        def test_nodes(self, kafka_broker):
            assert len(kafka_broker.bootstrap_servers.split(",")) == 3
            assert kafka_broker.partition_state("a", 0).replicas == (1, 2, 3)

        @pytest.mark.kafka_broker(topics={"b": 1}, nodes=2, replication_factor=2)
        def test_the_nearest_marker_wins(self, kafka_broker):
            with pytest.raises(UnknownTopicError):
                kafka_broker.end_offsets("a")
            assert len(kafka_broker.nodes) == 2
"""

WITHOUT_A_MARKER = """
    from confluent_kafka import Producer

    def test_a_topic_is_there_when_it_is_written(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
        producer.produce("events", value=b"v", key=b"k", headers=[("h", b"x"), ("n", None)])
        producer.produce("events", value=None)
        assert producer.flush(60) == 0
        first, second = kafka_broker.records("events")
        assert (first.key, first.value, first.headers) == (b"k", b"v", [("h", b"x"), ("n", None)])
        assert (second.key, second.value, second.headers) == (None, None, [])
        assert (first.topic, first.partition, first.offset, second.offset) == ("events", 0, 0, 1)
        frame = kafka_broker.records("events").to_pandas()
        assert list(frame["value"]) == [b"v", None]
        assert frame["timestamp"][0] == first.timestamp
"""


def test_fixture_with_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("--strict-markers", *PLUGIN)
    result.assert_outcomes(passed=3)


def test_fixture_without_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WITHOUT_A_MARKER)
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("3", "takes keywords only"),
        ("nodes=0", "nodes is 0"),
        ("nods=3", "no option nods. Did you mean nodes?"),
    ],
)
def test_invalid_markers_are_errors_of_the_test(
    pytester: pytest.Pytester, marker: str, message: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.kafka_broker({marker})
        def test_it(kafka_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{message}*"])


def test_marker_is_in_pytests_help(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--markers", *PLUGIN)
    result.stdout.fnmatch_lines(["@pytest.mark.kafka_broker(**options)*"])


def test_plugin_is_an_entry_point() -> None:
    from importlib.metadata import distribution

    entries = [e for e in distribution("spark-kafka-sink").entry_points if e.group == "pytest11"]
    assert [entry.value for entry in entries] == ["spark_kafka_sink.pytest_plugin"]


def test_plugin_imports_lazily() -> None:
    code = (
        "import sys, spark_kafka_sink.pytest_plugin; "
        "assert not {'kio', 'pyspark', 'spark_kafka_sink.broker.net.event_loop'} & set(sys.modules)"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
