"""Write one record with other clients, using their names for security options."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.security.oauthbearer import unsecured_token

SECONDS = 60


class NotDeliveredError(RuntimeError):
    """The client did not deliver its record; the message contains the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Credentials for a broker; None or an empty string if not required."""

    mechanism: str | None = None
    user: str = ""
    password: str = ""
    ca_file: Path | None = None
    certificate: tuple[Path, Path] | None = None

    @property
    def protocol(self) -> str:
        if self.mechanism is not None:
            return "SASL_PLAINTEXT" if self.ca_file is None else "SASL_SSL"
        return "PLAINTEXT" if self.ca_file is None else "SSL"


Writer = Callable[["EmbeddedBroker", Login, str, bytes], None]


def confluent_options(login: Login) -> dict[str, str]:
    """Return the options for librdkafka."""
    options = {"security.protocol": login.protocol}
    if login.mechanism is not None:
        options["sasl.mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        options["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        options["sasl.oauthbearer.config"] = f"principal={login.user}"
    elif login.mechanism is not None:
        options |= {"sasl.username": login.user, "sasl.password": login.password}
    if login.ca_file is not None:
        options["ssl.ca.location"] = str(login.ca_file)
    if login.certificate is not None:
        certificate, key = map(str, login.certificate)
        options |= {"ssl.certificate.location": certificate, "ssl.key.location": key}
    return options


def write_with_confluent(broker: EmbeddedBroker, login: Login, topic: str, value: bytes) -> None:
    outcome: list[str | None] = []
    errors: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "error_cb": lambda error: errors.append(error.str()),
            "log_level": 0,
            "message.timeout.ms": 2500,
            **confluent_options(login),
        }
    )
    producer.produce(
        topic, value, on_delivery=lambda error, _: outcome.append(error.str() if error else None)
    )
    producer.flush(SECONDS)
    if outcome != [None]:
        raise NotDeliveredError(f"{outcome} {errors}")


class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Unsigned tokens for kafka-python."""

    def __init__(self, user: str) -> None:
        super().__init__()
        self._user = user

    def token(self) -> str:
        return unsecured_token(self._user)


class AiokafkaTokens(AsyncTokenProvider):  # type: ignore[misc]  # neither has aiokafka
    """Unsigned tokens for aiokafka."""

    def __init__(self, user: str) -> None:
        self._user = user

    async def token(self) -> str:
        return unsecured_token(self._user)


def ssl_context(login: Login) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=login.ca_file)
    if login.certificate is not None:
        context.load_cert_chain(*login.certificate)
    return context


def python_options(login: Login, tokens: Callable[[str], object]) -> dict[str, object]:
    """Return the options for kafka-python and aiokafka."""
    options: dict[str, object] = {"security_protocol": login.protocol}
    if login.mechanism is not None:
        options["sasl_mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = tokens(login.user)
    elif login.mechanism is not None:
        options |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    if login.ca_file is not None:
        options["ssl_context"] = ssl_context(login)
    return options


def write_with_kafka_python(broker: EmbeddedBroker, login: Login, topic: str, value: bytes) -> None:
    try:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            max_block_ms=2500,
            bootstrap_timeout_ms=2500,
            **python_options(login, KafkaPythonTokens),
        )
    except Exception as error:
        raise NotDeliveredError(repr(error)) from error
    try:
        producer.send(topic, value).get(SECONDS)
    except Exception as error:
        raise NotDeliveredError(repr(error)) from error
    finally:
        producer.close()


def write_with_aiokafka(broker: EmbeddedBroker, login: Login, topic: str, value: bytes) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, **python_options(login, AiokafkaTokens)
        )
        try:
            await producer.start()
            await producer.send_and_wait(topic, value)
        except Exception as error:
            raise NotDeliveredError(repr(error)) from error
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(write(), SECONDS))


WRITERS: dict[str, Writer] = {
    "librdkafka": write_with_confluent,
    "kafka-python": write_with_kafka_python,
    "aiokafka": write_with_aiokafka,
}
