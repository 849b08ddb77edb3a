"""Log in with confluent-kafka."""

import logging
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

_LOGIN_S = 60
_RETRY_OPTIONS = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
_QUIET = logging.getLogger("tests.support.security.confluent_client")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class ConfluentClientError(RuntimeError):
    """The client could not log in."""


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
