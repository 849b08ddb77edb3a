"""Local paths as users write them, with ~ for the home directory."""

from __future__ import annotations

import socket
from pathlib import Path

from spark_kafka_sink.common.errors import ConfigError, KafkaProdError


def absolute_path(text: str | Path, raised: type[KafkaProdError] = ConfigError) -> Path:
    """Return an absolute path, with ~ replaced by the home directory.

    Raises:
        KafkaProdError: an error of the class `raised`: the path starts with ~, and the home
            directory is unknown.
    """
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise raised(
            f"the path {text} starts with ~, but the home directory is unknown on "
            f"{socket.gethostname()}",
            hint="Set the environment variable HOME, or use a path without ~.",
        ) from error
