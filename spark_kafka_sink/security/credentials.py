"""A login's name and password as bytes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown_file

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret


def revealed(secret: Secret) -> str:
    """A secret's text, which must be there, be UTF-8, and not end with a line break.

    Raises:
        ConfigError: it can't be found, is empty, has what no UTF-8 text can have, or ends so.
    """
    text = utf8_text(secret)
    if not text:
        raise ConfigError(f"option {secret.option} is empty")
    return text


def utf8_text(secret: Secret) -> str:
    """A secret's text, which may be empty, must be UTF-8, and not end with a line break.

    Raises:
        ConfigError: it can't be found, has what no UTF-8 text can have, or ends so: a name or a
            password that does is a mistake of whoever wrote the file or the variable.
    """
    text = secret.reveal()
    try:
        text.encode()
    except UnicodeEncodeError:
        # Environment variables of bytes that are not UTF-8. No cause: it holds the text.
        raise ConfigError(f"option {secret.option} is not UTF-8") from None
    if text.endswith(("\n", "\r")):
        raise ConfigError(
            f"option {secret.option} "
            + ("ends with a line break" if secret.file is None else _of_file(secret.file)),
            hint="Write it without: a line break would be part of the name or the password.",
        )
    return text


def _of_file(path: str) -> str:
    return (
        f"names {shown_file(path)}, which ends with more than one line break on "
        f"{socket.gethostname()}"
    )
