"""With what to log in, now and on this host: references to a whole login are followed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.config.security.model import JaasLogin
from spark_kafka_sink.config.security.sasl.login import resolve
from spark_kafka_sink.security.shipped_files import located

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import Login, SaslConfig


def resolved_login(config: SaslConfig) -> Login:
    """The login, with the paths of the files that it names.

    Raises:
        ConfigError: a reference leads nowhere on this host, or to something that is no login.
    """
    login = resolve(config)
    if not isinstance(config.login, JaasLogin):
        return login
    return located(login, [Path(folder) for folder in config.login.folders])
