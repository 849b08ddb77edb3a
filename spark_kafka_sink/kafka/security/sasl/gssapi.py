"""GSSAPI (RFC 4752) with Kerberos 5.

GSSAPI is used only for authentication; later messages are not wrapped.
"""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import gssapi
from gssapi.exceptions import GSSError

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.masking import safe_file
from spark_kafka_sink.common.text import quoted
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange, check_size

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_config import KerberosLogin
    from spark_kafka_sink.kafka.security.sasl.exchange import Messages

_MECHANISM = "GSSAPI"
_KERBEROS = gssapi.MechType.kerberos
_FLAGS = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
_NO_LAYER = 1
"""Bit for no security layer (RFC 4752), so that messages after the login are not wrapped."""
_LAYERS_SIZE = 4
"""Length of the security layer message in bytes: one byte for the layers, three for the maximum
message size.
"""


def gssapi_exchange(login: KerberosLogin, host: str) -> SaslExchange:
    """Return an exchange with a broker.

    Args:
        login: the principal, and the ticket cache or keytab.
        host: the broker's host name; the broker's principal is `service_name/host`.
    """
    return SaslExchange(_MECHANISM, _messages(login, host))


def _messages(login: KerberosLogin, host: str) -> Messages:
    """Yield the context's tokens, then the chosen security layer (RFC 4752)."""
    context, token = _first_token(login, host)
    try:
        while not context.complete:
            challenge = yield token
            check_size(challenge, _MECHANISM)
            token = context.step(challenge) or b""
        if not context.actual_flags & gssapi.RequirementFlag.integrity:
            raise AuthenticationError("the broker's Kerberos context has no integrity protection")
        challenge = yield token
        check_size(challenge, _MECHANISM)
        yield _chosen_layer(context, challenge)
    except GSSError as error:
        raise AuthenticationError(
            f"the broker's GSSAPI message is invalid: {_describe_error(error)}"
        ) from error


def _first_token(login: KerberosLogin, host: str) -> tuple[gssapi.SecurityContext, bytes]:
    """Return a new context and its first token, with a ticket for the broker's service.

    Raises:
        AuthenticationError: no ticket can be obtained.
        ConfigError: the keytab cannot be read on this host.
    """
    _check_keytab(login.keytab)
    try:
        service = f"{login.service_name}@{host}"
        context = gssapi.SecurityContext(
            name=gssapi.Name(service, gssapi.NameType.hostbased_service),
            creds=_credentials(login),
            flags=_FLAGS,
            mech=_KERBEROS,
            usage="initiate",
        )
        return context, context.step() or b""
    except GSSError as error:
        raise AuthenticationError(
            f"no Kerberos ticket for {login.service_name}/{host} with {_ticket_source(login)}: "
            f"{_describe_error(error)}",
            hint="Check kinit and klist on this host, krb5.conf, the principal and "
            "kafka.sasl.kerberos.service.name.",
        ) from error


def _chosen_layer(context: gssapi.SecurityContext, challenge: bytes) -> bytes:
    """Choose no security layer, and authorize as the principal, as Java does.

    Raises:
        AuthenticationError: the broker's layers are malformed, or it requires a layer.
    """
    offered = context.unwrap(challenge).message
    if len(offered) != _LAYERS_SIZE:
        raise AuthenticationError("the broker's GSSAPI security layers are malformed")
    if not offered[0] & _NO_LAYER:
        raise AuthenticationError(
            "the broker requires a GSSAPI security layer, which Kafka does not use"
        )
    chosen = bytes([_NO_LAYER, 0, 0, 0]) + str(context.initiator_name).encode()
    wrapped: bytes = context.wrap(chosen, encrypt=False).message
    return wrapped


def _credentials(login: KerberosLogin) -> gssapi.Credentials:
    """Return credentials from the keytab or the ticket cache.

    Tickets obtained with a keytab are stored in a memory cache that is shared by the whole process.
    """
    name = None
    if login.principal is not None:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    store = {}
    if login.keytab is not None:
        source = hashlib.sha256(f"{login.keytab}\0{login.principal}".encode()).hexdigest()[:16]
        store = {"client_keytab": login.keytab, "ccache": f"MEMORY:kafkaprod-{source}"}
    elif login.ticket_cache is not None:
        store = {"ccache": f"FILE:{login.ticket_cache}"}
    return gssapi.Credentials(name=name, mechs=[_KERBEROS], usage="initiate", store=store or None)


def _describe_error(error: GSSError) -> str:
    """Return the Kerberos error text, or else the GSSAPI error text."""
    texts = error.get_all_statuses(error.min_code, False) if error.min_code else []
    messages = [str(text) for text in texts if str(text) not in ("", "Success")]
    messages = messages or [str(text) for text in error.get_all_statuses(error.maj_code, True)]
    return quoted("; ".join(messages))


def _ticket_source(login: KerberosLogin) -> str:
    """Return a description of the ticket source and the principal, for an error message."""
    source = "the system's ticket cache"
    if login.keytab is not None:
        source = f"the keytab {login.keytab}"
    elif login.ticket_cache is not None:
        source = f"the ticket cache {login.ticket_cache}"
    return source if login.principal is None else f"{source} as {login.principal}"


def _check_keytab(path: str | None) -> None:
    if path is not None and not os.access(Path(path), os.R_OK):
        raise ConfigError(
            f"the keytab is {safe_file(path)}, which cannot be read on {socket.gethostname()}",
            hint="Ship it with spark.files or --files, or put it on every executor.",
        )
