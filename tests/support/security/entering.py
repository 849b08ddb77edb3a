"""A foreign client that enters by a door, and may write."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FLUSH_S = 30
_LOGIN_S = 60
_PATIENT = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
_QUIET = logging.getLogger("tests.support.security.entering")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class EnteringError(RuntimeError):
    """The client delivered not everything; the message says why."""


def await_login(options: Mapping[str, str]) -> None:
    """Wait until confluent-kafka can log in, who goes on trying.

    A broker reads new users and passwords from the metadata log, or from ZooKeeper, some time after
    the request that made them was answered.

    Raises:
        EnteringError: it can't.
    """
    try:
        AdminClient({**options, **_PATIENT}, logger=_QUIET).list_topics(timeout=_LOGIN_S)
    except KafkaException as error:
        raise EnteringError(str(error)) from error


def write_with_confluent(options: Mapping[str, str], topic: str, values: Sequence[bytes]) -> None:
    """Write with confluent-kafka.

    Raises:
        EnteringError: as its docstring says.
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
    left = producer.flush(_FLUSH_S)
    if left or errors:
        raise EnteringError(f"{left} of {len(values)} left; {errors[:3]}")
