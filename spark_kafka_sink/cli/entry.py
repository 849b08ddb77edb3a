"""The entry point of `kafkaprod`: missing libraries, and text that the locale cannot encode."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import require_extra

_ESCAPE = "kafkaprod.escape"
"""Name of the error handler of stdout and stderr."""


def run() -> None:
    """Run the command line. If libraries are missing, print how to install them and exit with 1.

    Output that the locale cannot encode is escaped. An argument that the locale cannot decode can
    be a path; other uses of it end the command.
    """
    try:
        require_extra("cli", "the command line")
    except ConfigError as error:
        sys.exit(f"kafkaprod: {error}")
    from spark_kafka_sink.cli.main import app

    codecs.register_error(_ESCAPE, _escape_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)
    try:
        app()
    except UnicodeEncodeError:
        # The error is not printed: it can contain a password.
        sys.exit(f"kafkaprod: {_encoding_error(sys.argv[1:])}")


def _escape_characters(error: UnicodeError) -> tuple[str, int]:
    """Escape characters as in JSON, so that JSON remains valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _encoding_error(arguments: list[str]) -> ConfigError:
    """Return an error that names the undecoded argument, without the value of name=value."""
    undecoded = [text for text in arguments if text != text.encode(errors="ignore").decode()]
    name = os.fsencode("".join(undecoded[:1]).partition("=")[0]).decode(errors="backslashreplace")
    return ConfigError(
        f"{f'argument {name}' if name else 'an option'} contains characters that the locale's "
        f"encoding {sys.getfilesystemencoding()} does not have",
        hint="Set LC_ALL to a UTF-8 locale, such as C.UTF-8.",
    )
