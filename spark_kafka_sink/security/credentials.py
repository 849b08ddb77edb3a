"""A login's name and password as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret


def revealed(secret: Secret) -> str:
    """A secret's text, which must be there and be UTF-8.

    Raises:
        ConfigError: it can't be found, is empty, or has what no UTF-8 text can have.
    """
    text = utf8_text(secret)
    if not text:
        raise ConfigError(f"option {secret.option} is empty")
    return text


def utf8_text(secret: Secret) -> str:
    """A secret's text, which may be empty, and must be UTF-8.

    Raises:
        ConfigError: it can't be found, or has what no UTF-8 text can have.
    """
    text = secret.reveal()
    try:
        text.encode()
    except UnicodeEncodeError:
        # Environment variables of bytes that are not UTF-8. No cause: it holds the text.
        raise ConfigError(f"option {secret.option} is not UTF-8") from None
    return text
