"""Java clients with the client options of the broker, and their errors."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from spark_kafka_sink import EmbeddedBroker
from tools.support.java import Jvm, kafka_jvm

STRINGS = "org.apache.kafka.common.serialization.StringSerializer"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PASSWORD = 'se"c\\ret;='


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    with kafka_jvm() as running:
        yield running


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        topics={"t": 1},
        tls=True,
        sasl={"alice": PASSWORD},
        sasl_mechanisms=MECHANISMS,
        connections_max_reauth_ms=1500,
    ) as broker:
        yield broker


def producer(jvm: Jvm, options: Mapping[str, str], **more: str) -> Any:
    settings = jvm.packages.java.util.Properties()
    own = {"key.serializer": STRINGS, "value.serializer": STRINGS, "max.block.ms": "15000"}
    for key, value in {**options, **own, **more}.items():
        settings.setProperty(key, value)
    return jvm.packages.org.apache.kafka.clients.producer.KafkaProducer(settings)


def send(jvm: Jvm, sender: Any, topic: str = "t") -> Any:
    record = jvm.packages.org.apache.kafka.clients.producer.ProducerRecord(topic, "v")
    return sender.send(record).get()


def write(jvm: Jvm, options: Mapping[str, str]) -> Any:
    sender = producer(jvm, options)
    try:
        return send(jvm, sender).offset()
    finally:
        sender.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_client_options_of_the_broker(jvm: Jvm, secured: EmbeddedBroker, mechanism: str) -> None:
    before = secured.end_offsets("t")[0]
    options = secured.client_options("alice", mechanism=mechanism, prefix="")
    if mechanism == "OAUTHBEARER":
        options["sasl.login.callback.handler.class"] = (
            "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
            "OAuthBearerUnsecuredLoginCallbackHandler"
        )
    assert write(jvm, options) == before


def test_reauthentication(jvm: Jvm, secured: EmbeddedBroker) -> None:
    """Use one connection for the duration of three sessions."""
    sender = producer(jvm, secured.client_options("alice", prefix=""))
    try:
        first = send(jvm, sender).offset()
        deadline = jvm.packages.java.lang.System.nanoTime() + 5_000_000_000
        sent = 0
        while jvm.packages.java.lang.System.nanoTime() < deadline:
            send(jvm, sender)
            sent += 1
        assert secured.end_offsets("t")[0] == first + 1 + sent
        metrics = {str(key.name()): key for key in sender.metrics().keySet()}
        done = sender.metrics().get(metrics["successful-reauthentication-total"]).metricValue()
        assert done >= 2
    finally:
        sender.close()


def test_client_certificate(jvm: Jvm) -> None:
    with EmbeddedBroker(topics={"t": 1}, tls=True, client_certificates="required") as broker:
        certificate = broker.client_certificate("alice")
        options = broker.client_options(certificate=certificate, prefix="")
        assert write(jvm, options) == 0
        nobody = {name: text for name, text in options.items() if "ssl.keystore" not in name}
        assert nobody != options
        with pytest.raises(Py4JJavaError, match="SslAuthenticationException"):
            write(jvm, nobody)


def test_authentication_and_authorization_errors(jvm: Jvm, secured: EmbeddedBroker) -> None:
    options = secured.client_options("alice", mechanism="PLAIN", prefix="")
    options["sasl.jaas.config"] = options["sasl.jaas.config"].replace("alice", "mallory")
    with pytest.raises(Py4JJavaError, match="SaslAuthenticationException"):
        write(jvm, options)
    secured.deny("alice", "Write", topic="t")
    denied = secured.client_options("alice", mechanism="SCRAM-SHA-256", prefix="")
    try:
        with pytest.raises(Py4JJavaError, match="TopicAuthorizationException"):
            write(jvm, denied)
    finally:
        secured.remove_denial()
