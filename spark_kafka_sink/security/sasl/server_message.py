"""A broker's SASL message as text: nothing of it is believed before it is checked."""

from __future__ import annotations

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.foreign_text import quoted

__all__ = ["check_size", "decoded", "quoted"]

LARGEST = 64 * 1024
"""Bytes. The longest message that any of the mechanisms needs is far below."""


def check_size(message: bytes, mechanism: str) -> None:
    """Refuse a message that no broker needs to send.

    Raises:
        AuthenticationError: it is longer than `LARGEST`.
    """
    if len(message) > LARGEST:
        raise AuthenticationError(
            f"the broker's {mechanism} message has {len(message):,} bytes, more than the "
            f"{LARGEST:,} that are accepted"
        )


def decoded(message: bytes, mechanism: str) -> str:
    """The message as text.

    Raises:
        AuthenticationError: it is too long, or not UTF-8.
    """
    check_size(message, mechanism)
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError(f"the broker's {mechanism} message is not UTF-8") from error
