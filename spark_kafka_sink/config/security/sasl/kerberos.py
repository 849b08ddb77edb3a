"""GSSAPI's login: from Krb5LoginModule's options, or librdkafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown
from spark_kafka_sink.config.security.model import KerberosLogin

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.sasl.jaas import JaasOptions
    from spark_kafka_sink.config.security.values import SecurityValues

_SERVICE = "sasl.kerberos.service.name"


def kerberos_login(values: SecurityValues, options: JaasOptions) -> KerberosLogin:
    """A keytab with its principal, or the ticket cache.

    Raises:
        ConfigError: there is no service name, or there are two; a keytab is wanted and not named.
    """
    uses_keytab = options.flag("useKeyTab")
    keytab = options.text("keyTab") if uses_keytab else None
    keytab = (keytab or "").removeprefix("file:") or values.text("sasl.kerberos.keytab")
    if uses_keytab and keytab is None:
        raise ConfigError(
            f"useKeyTab=true in {options.place} is without keyTab",
            hint='Add keyTab="/path/of/the.keytab", or useTicketCache=true instead.',
        )
    return KerberosLogin(
        service_name=_service_name(values, options),
        principal=options.text("principal") or values.text("sasl.kerberos.principal"),
        keytab=keytab,
        ticket_cache=options.text("ticketCache"),
    )


def _service_name(values: SecurityValues, options: JaasOptions) -> str:
    """As Java's KerberosLogin: from either place, or the same in both."""
    own, jaas = values.text(_SERVICE), options.text("serviceName")
    if own is not None and jaas is not None and own != jaas:
        raise ConfigError(
            f"option {values.name(_SERVICE)} is {shown(own)}, and serviceName in {options.place} "
            "is another one",
            hint="Leave one of them out.",
        )
    found = own or jaas
    if found is None:
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is GSSAPI, which needs {values.name(_SERVICE)}"
            + ("" if values.given("sasl.mechanism") else "; GSSAPI is Java's default mechanism"),
            hint=f"Set {values.name(_SERVICE)} to the first part of the brokers' principals, most "
            f"often kafka; or {values.name('sasl.mechanism')} to another mechanism.",
        )
    return found
