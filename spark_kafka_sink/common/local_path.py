"""Local paths as users write them, with ~ for the home directory."""

from __future__ import annotations

import socket
from pathlib import Path

from spark_kafka_sink.common.errors import ConfigError, KafkaProdError


def absolute_path(text: str | Path, raised: type[KafkaProdError] = ConfigError) -> Path:
    """Return an absolute path, with ~ replaced by the home directory.

    Raises:
        KafkaProdError: an error of the class `raised`: the path starts with ~ or ~user, and the
            home directory or the user is unknown.
    """
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        start = Path(text).parts[0]
        unknown, remedy = (
            ("home directory", "Set the environment variable HOME, or use")
            if start == "~"
            else ("user", "Use")
        )
        raise raised(
            f"the path {text} starts with {start}, but the {unknown} is unknown on "
            f"{socket.gethostname()}",
            hint=f"{remedy} a path without ~.",
        ) from error
