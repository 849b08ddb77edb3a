"""Check that the libraries of a login are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.optional_dependencies import require_extra
from spark_kafka_sink.config.security import security_config

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_config import Login

_EXTRAS = {
    security_config.ClientCredentialsLogin: ("oauth", "kafka.sasl.oauthbearer.token.endpoint.url"),
    security_config.MskIamLogin: ("msk-iam", "kafka.sasl.mechanism"),
    security_config.KerberosLogin: ("gssapi", "kafka.sasl.mechanism"),
}
"""The extra that installs the libraries of a login, and the option that selects the login."""


def check_libraries(login: Login) -> None:
    """Check that the libraries that a login requires are installed, without importing them.

    Raises:
        ConfigError: a library is missing.
    """
    required = _EXTRAS.get(type(login))
    if required is not None:
        extra, option = required
        require_extra(extra, f"option {option}")
