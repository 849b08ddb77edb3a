"""GSSAPI (RFC 4752) with Kerberos 5.

GSSAPI is used only for authentication; later messages are not wrapped.
"""

from __future__ import annotations

import hashlib
import os
import socket
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

import gssapi
from gssapi.exceptions import GSSError

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.text import quoted, shown_file
from spark_kafka_sink.security.sasl.exchange import check_size

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import KerberosLogin

_KERBEROS = gssapi.MechType.kerberos
_FLAGS = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
_NO_LAYER = 1
"""Bit for no security layer (RFC 4752), so that messages after the login are not wrapped."""
_LAYERS_SIZE = 4
"""Length of the security layer message in bytes: one byte for the layers, three for the maximum
message size.
"""


class _Expects(Enum):
    """The message that the broker must send next."""

    CONTEXT = auto()
    LAYERS = auto()
    OUTCOME = auto()


class GssapiExchange:
    """See `SaslExchange`.

    Args:
        login: the principal, and the ticket cache or keytab.
        host: the broker's host name; the broker's principal is `service_name/host`.
    """

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._login = login
        self._host = host
        self._expects = _Expects.CONTEXT
        self._context: gssapi.SecurityContext | None = None

    @property
    def mechanism(self) -> str:
        """See `SaslExchange`."""
        return "GSSAPI"

    def first(self) -> bytes:
        """Return the first token, with a ticket for the broker's service.

        Raises:
            AuthenticationError: no ticket can be obtained.
            ConfigError: the keytab cannot be read on this host.
        """
        _check_keytab(self._login.keytab)
        try:
            service = gssapi.Name(
                f"{self._login.service_name}@{self._host}", gssapi.NameType.hostbased_service
            )
            self._context = gssapi.SecurityContext(
                name=service,
                creds=_credentials(self._login),
                flags=_FLAGS,
                mech=_KERBEROS,
                usage="initiate",
            )
            return self._context.step() or b""
        except GSSError as error:
            raise AuthenticationError(
                f"no Kerberos ticket for {self._login.service_name}/{self._host} with "
                f"{_ticket_source(self._login)}: {_describe_error(error)}",
                hint="Check kinit and klist on this host, krb5.conf, the principal and "
                "kafka.sasl.kerberos.service.name.",
            ) from error

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the context's next token, then the chosen security layer (RFC 4752), then None.

        Raises:
            AuthenticationError: the broker cannot prove that it is the service, or its message
                violates the mechanism.
        """
        check_size(challenge, self.mechanism)
        if self._context is None:
            raise AuthenticationError("the broker responded before the GSSAPI exchange started")
        try:
            match self._expects:
                case _Expects.CONTEXT:
                    return self._step(self._context, challenge)
                case _Expects.LAYERS:
                    return self._choose_layer(self._context, challenge)
                case _Expects.OUTCOME:
                    return None
        except GSSError as error:
            raise AuthenticationError(
                f"the broker's GSSAPI message is invalid: {_describe_error(error)}"
            ) from error

    def _step(self, context: gssapi.SecurityContext, challenge: bytes) -> bytes:
        token = context.step(challenge)
        if context.complete:
            if not context.actual_flags & gssapi.RequirementFlag.integrity:
                raise AuthenticationError(
                    "the broker's Kerberos context has no integrity protection"
                )
            self._expects = _Expects.LAYERS
        return token or b""

    def _choose_layer(self, context: gssapi.SecurityContext, challenge: bytes) -> bytes:
        """Choose no security layer, and authorize as the principal, as Java does."""
        offered = context.unwrap(challenge).message
        if len(offered) != _LAYERS_SIZE:
            raise AuthenticationError("the broker's GSSAPI security layers are malformed")
        if not offered[0] & _NO_LAYER:
            raise AuthenticationError(
                "the broker requires a GSSAPI security layer, which Kafka does not use"
            )
        self._expects = _Expects.OUTCOME
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
        place = hashlib.sha256(f"{login.keytab}\0{login.principal}".encode()).hexdigest()[:16]
        store = {"client_keytab": login.keytab, "ccache": f"MEMORY:kafkaprod-{place}"}
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
    place = "the system's ticket cache"
    if login.keytab is not None:
        place = f"the keytab {login.keytab}"
    elif login.ticket_cache is not None:
        place = f"the ticket cache {login.ticket_cache}"
    return place if login.principal is None else f"{place} as {login.principal}"


def _check_keytab(path: str | None) -> None:
    if path is not None and not os.access(Path(path), os.R_OK):
        raise ConfigError(
            f"the keytab is {shown_file(path)}, which cannot be read on {socket.gethostname()}",
            hint="Ship it with spark.files or --files, or put it on every executor.",
        )
