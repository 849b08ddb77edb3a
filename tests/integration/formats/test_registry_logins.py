"""Logins at a schema registry: passwords, tokens, and the login of Kafka."""

import pickle

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from tests.integration.formats.registry_sink import ORDER, RegistrySink
from tests.support.schema_registry import SmallRegistry

BASIC = "Basic bWU6cHctMQ=="


def test_basic_authentication(sink: RegistrySink) -> None:
    sink.registry.authorization = BASIC
    text = sink.error_of(**{"basic.auth.user.info": "me:wrong-pw"})
    assert "HTTP status 401" in text
    assert "wrong-pw" not in text
    assert "basic.auth.user.info" in text
    sink.write(**{"basic.auth.user.info": "me:pw-1"})
    url = sink.registry.url.replace("http://", "http://me:pw-1@")
    sink.write(**{"schema.registry.url": url})
    sink.registry.authorization = "Bearer token-1"
    sink.write(**{"bearer.auth.token": "token-1"})


def test_inherited_login(registry: SmallRegistry) -> None:
    registry.authorization = BASIC
    with EmbeddedBroker(topics={"events": 1}, sasl={"me": "pw-1"}) as broker:
        RegistrySink(broker, registry).write(
            **{
                "basic.auth.credentials.source": "SASL_INHERIT",
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.username": "me",
                "kafka.sasl.password": "pw-1",
            }
        )
        assert len(broker.records("events")) == 2


def test_writer_of_tasks_contains_no_login(sink: RegistrySink) -> None:
    sink.registry.authorization = BASIC
    source = KafkaProdDataSource({**sink.options, "basic.auth.user.info": "me:pw-1"})
    assert b"pw-1" not in pickle.dumps(source.writer(ORDER, overwrite=False))
