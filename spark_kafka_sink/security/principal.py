"""Who a broker takes a client for: the principal that ACLs name, as far as the options tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import KerberosLogin, PasswordLogin
from spark_kafka_sink.security.resolved_login import resolved_login

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import Login, SaslConfig, SecurityConfig

_ANONYMOUS = "ANONYMOUS"
_OF_CERTIFICATE = "<the subject of the client's certificate>"
_OF_TOKEN = "<the subject of the token>"  # noqa: S105
_OF_TOKEN_OWNER = "<the owner of the delegation token>"  # noqa: S105
_OF_TICKET = "<the owner of the Kerberos ticket>"
_OF_REFERENCE = "<the name of the login>"


def principal_of(security: SecurityConfig) -> str:
    """The principal as kafka-acls takes it, "User:" and a name; in angle brackets what it is of.

    A name that is itself `env:` or `file:` is not looked up, but one in a sasl.jaas.config that is.
    Source: ``DefaultKafkaPrincipalBuilder`` without mapping rules.
    """
    return f"User:{_name(security)}"


def _name(security: SecurityConfig) -> str:
    if security.sasl is not None:
        return _sasl_name(security.sasl)
    if security.tls is not None and security.tls.keystore is not None:
        return _OF_CERTIFICATE
    return _ANONYMOUS


def _sasl_name(sasl: SaslConfig) -> str:
    try:
        return _login_name(resolved_login(sasl))
    except ConfigError:  # whoever logs in says so
        return _OF_REFERENCE


def _login_name(login: Login) -> str:
    match login:
        case PasswordLogin(token_auth=True):
            return _OF_TOKEN_OWNER
        case PasswordLogin():
            return _OF_REFERENCE if login.username.is_reference else login.username.reveal()
        case KerberosLogin():
            return _short_name(login.principal) if login.principal else _OF_TICKET
        case _:
            return _OF_TOKEN


def _short_name(principal: str) -> str:
    """What sasl.kerberos.principal.to.local.rules makes of it by default: the primary alone."""
    return principal.partition("@")[0].partition("/")[0]
