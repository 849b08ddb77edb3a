"""Addresses of `EmbeddedBroker`, and its errors for missing topics, hosts and starts."""

import multiprocessing
import re
import socket
import threading

import pytest
from confluent_kafka import Producer

from spark_kafka_sink import (
    BrokerUnavailableError,
    ConfigError,
    EmbeddedBroker,
    KafkaProdError,
    UnknownTopicError,
)
from spark_kafka_sink.broker.net.listeners import listen
from spark_kafka_sink.broker.storage.data_dir import DataDir
from spark_kafka_sink.report.file_storage import read_report


def test_missing_topic_error_lists_existing_topics() -> None:
    with EmbeddedBroker(topics={"events": 1}) as kafka, pytest.raises(UnknownTopicError) as unknown:
        kafka.records("evnts")
    assert unknown.value.hint == "Topics: events."


@pytest.mark.parametrize("host", ["::1", "[::1]", "localhost", "127.0.0.1"])
def test_real_client_connects_to_each_kind_of_host(host: str) -> None:
    with EmbeddedBroker(host=host, topics={"t": 1}, nodes=2) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce("t", value=b"v")
        assert producer.flush(30) == 0
        assert kafka.end_offsets("t") == [1]
        assert kafka.bootstrap_servers.startswith("[::1]:" if ":" in host else f"{host}:")


def test_all_addresses_include_ipv4_and_ipv6() -> None:
    with EmbeddedBroker(host="::", advertised_listeners="[::1]:9092", topics={"t": 1}) as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), 10).close()


def test_host_error_names_the_host_and_port_error_the_port() -> None:
    for host in ("192.0.2.1", "[2001:db8::1]", "no-such-host.invalid"):
        text = rf"listen on {re.escape(host)}:0: .*Set host to an address"
        with pytest.raises(BrokerUnavailableError, match=text):
            EmbeddedBroker(host=host.strip("[]")).start()
    with EmbeddedBroker() as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(BrokerUnavailableError, match="Set another port"):
            EmbeddedBroker(port=port).start()


@pytest.mark.parametrize("tls", [False, True])
def test_invalid_host_name_is_an_error(tls: bool) -> None:
    for host in ("a..b", f"{'a' * 64}.invalid", "größe..invalid", "\udcc3.invalid"):
        with pytest.raises(ConfigError, match=rf"cannot listen on {host}:0: .* valid host name"):
            EmbeddedBroker(host=host, tls=tls)
    with pytest.raises(BrokerUnavailableError, match="Set host to an address"):
        EmbeddedBroker(host="größe.invalid", tls=tls).start()


def test_broker_listens_at_the_address_of_the_host_that_the_machine_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = [(socket.AF_INET6, ("::1", 0)), (socket.AF_INET, ("192.0.2.1", 0))]
    resolved = [(family, socket.SOCK_STREAM, 6, "", address) for family, address in addresses]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: resolved)
    with listen("name", 0) as listener:
        assert listener.getsockname()[0] == "::1"
    with socket.create_server(("127.0.0.1", 0)) as other:
        resolved[1] = (*resolved[1][:4], other.getsockname())
        with pytest.raises(OSError, match="in use"):
            listen("name", 0)


def test_port_error_contains_the_allowed_ports() -> None:
    for port in (-1, 70_000):
        with pytest.raises(ConfigError, match="Set a port from 1 to 65534, or 0"):
            EmbeddedBroker(port=port, nodes=2)


def test_last_node_can_have_the_last_port() -> None:
    assert EmbeddedBroker(port=65_534, nodes=2).config.port == 65_534


def test_forked_process_gets_an_error_at_once() -> None:
    """A fork copies no threads, so no thread would answer."""
    with EmbeddedBroker(topics={"t": 1}) as kafka:
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)

        def use_the_parents_broker() -> None:
            try:
                kafka.end_offsets("t")
            except BrokerUnavailableError as error:
                sender.send(str(error))

        process = context.Process(target=use_the_parents_broker)
        process.start()
        assert receiver.poll(5)
        assert "runs in the parent of this process" in receiver.recv()
        process.join()
        assert kafka.end_offsets("t") == [0]


def test_broker_that_was_not_started_has_no_address() -> None:
    kafka = EmbeddedBroker()
    for use in (lambda: kafka.bootstrap_servers, kafka.client_options, lambda: kafka.records("t")):
        with pytest.raises(BrokerUnavailableError, match=r"is not running\. .* call start\(\)"):
            use()


def test_path_in_an_unknown_home_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user has neither HOME nor an entry in /etc/passwd."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for use in (DataDir, read_report):
        with pytest.raises(
            KafkaProdError, match=r"starts with ~, .* Set the environment variable HOME"
        ):
            use("~/kafka")
        with pytest.raises(
            KafkaProdError, match=r"starts with ~nobody-here, but the user is unknown .* Use a path"
        ):
            use("~nobody-here/kafka")


def test_running_broker_is_not_started_again() -> None:
    """A second broker would serve other data, and no `stop` would end the first one."""
    kafka = EmbeddedBroker(topics={"t": 1})
    kafka.start()
    before, threads = kafka.bootstrap_servers, threading.active_count()
    with pytest.raises(ConfigError, match="already running"):
        kafka.start()
    with pytest.raises(ConfigError, match="already running"), kafka:
        pass
    assert (kafka.bootstrap_servers, threading.active_count()) == (before, threads)
    producer = Producer({"bootstrap.servers": before})
    producer.produce("t", value=b"v")
    assert producer.flush(30) == 0
    assert [record.value for record in kafka.records("t")] == [b"v"]
    kafka.stop()
    with kafka:
        assert kafka.end_offsets("t") == [0]
