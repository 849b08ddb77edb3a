"""The extras that logins need, beyond what the package always brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.extras import require_extra
from spark_kafka_sink.config.security.model import (
    ClientCredentialsLogin,
    KerberosLogin,
    MskIamLogin,
)

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import Login

_EXTRAS = {
    ClientCredentialsLogin: ("oauth", "kafka.sasl.oauthbearer.token.endpoint.url"),
    MskIamLogin: ("msk-iam", "kafka.sasl.mechanism"),
    KerberosLogin: ("gssapi", "kafka.sasl.mechanism"),
}


def check_libraries(login: Login) -> None:
    """Make sure that what a login needs is installed, without importing it.

    Raises:
        ConfigError: it is not.
    """
    wanted = _EXTRAS.get(type(login))
    if wanted is not None:
        extra, option = wanted
        require_extra(extra, f"option {option}")
