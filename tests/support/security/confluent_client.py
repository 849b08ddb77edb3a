"""Log in and write with confluent-kafka."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

_FLUSH_S = 30
_LOGIN_S = 60
_RETRY_OPTIONS = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
_QUIET = logging.getLogger("tests.support.security.confluent_client")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class ConfluentClientError(RuntimeError):
    """The client could not log in, or could not deliver all records."""


def await_login(options: Mapping[str, str]) -> None:
    """Wait until confluent-kafka, which retries, can log in.

    A broker reads new users and passwords from the metadata log or ZooKeeper, some time after the
    response to the request that created them.

    Raises:
        ConfluentClientError: the login failed until the timeout.
    """
    try:
        AdminClient({**options, **_RETRY_OPTIONS}, logger=_QUIET).list_topics(timeout=_LOGIN_S)
    except KafkaException as error:
        raise ConfluentClientError(str(error)) from error


def write_with_confluent(options: Mapping[str, str], topic: str, values: Sequence[bytes]) -> None:
    """Write with confluent-kafka.

    Raises:
        ConfluentClientError: at least one record was not delivered.
    """
    errors: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            errors.append(str(error))

    settings: dict[str, Any] = {
        **options,
        "error_cb": lambda error: errors.append(str(error)),
        "on_delivery": delivered,
    }
    producer = Producer(settings, logger=_QUIET)
    for value in values:
        producer.produce(topic, value)
    undelivered = producer.flush(_FLUSH_S)
    if undelivered or errors:
        raise ConfluentClientError(f"{undelivered} of {len(values)} undelivered; {errors[:3]}")
