"""SCRAM's messages (RFC 5802, section 7), with the grammar of Kafka's ScramMessages."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass, field

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.foreign_text import quoted

GS2_HEADER = "n,,"
"""No channel binding, no authorization identity."""
MIN_ITERATIONS = 4_096
"""RFC 7677; a server that asks for fewer makes the password cheap to guess."""
MAX_ITERATIONS = 1_000_000
"""A second or two of one core. Kafka allows 16,384 for its users, and current advice for stored
passwords is below a million. A server that names billions would keep the client busy for hours."""

_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]+)*"
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]+)"
    + _EXTENSIONS
)
_SERVER_FINAL = re.compile(r"v=(?P<verifier>[A-Za-z0-9+/=]+)" + _EXTENSIONS)
_ERROR = "e="


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The server's challenge."""

    nonce: str
    """The client's, with the server's behind it."""
    salt: bytes = field(repr=False)
    iterations: int


def sasl_name(name: str) -> str:
    """A user name with `=` and `,` escaped; not SASLprepped, as Kafka's ScramFormatter."""
    return name.replace("=", "=3D").replace(",", "=2C")


def client_first_bare(name: str, nonce: str, *, token_auth: bool) -> str:
    """The client's first message without the GS2 header.

    Args:
        name: of the user, or a delegation token's id (KIP-48).
        nonce: printable ASCII without a comma.
        token_auth: the name is a token's id.
    """
    bare = f"n={sasl_name(name)},r={nonce}"
    return f"{bare},tokenauth=true" if token_auth else bare


def parse_server_first(text: str, mechanism: str, client_nonce: str) -> ServerFirst:
    """Read and check the server's first message.

    Raises:
        AuthenticationError: it is malformed, tells an error, has an extension that must be
            understood, answers another nonce, or asks for too few or too many iterations.
    """
    _check_error(text, mechanism)
    if text.startswith("m="):
        raise AuthenticationError(
            f"the broker's {mechanism} challenge demands an extension that nobody knows"
        )
    found = _SERVER_FIRST.fullmatch(text)
    if found is None:
        raise AuthenticationError(f"the broker's {mechanism} challenge is malformed")
    nonce = found["nonce"]
    if not nonce.startswith(client_nonce) or nonce == client_nonce:
        raise AuthenticationError(
            f"the broker's {mechanism} nonce does not go on from the client's: its challenge "
            "belongs to another login"
        )
    salt = _base64(found["salt"], f"{mechanism} salt")
    return ServerFirst(nonce, salt, _iterations(found["iterations"], mechanism))


def _iterations(digits: str, mechanism: str) -> int:
    iterations = int(digits) if len(digits) <= len(str(MAX_ITERATIONS)) else MAX_ITERATIONS + 1
    if iterations < MIN_ITERATIONS:
        raise AuthenticationError(
            f"the broker asks for {iterations} {mechanism} iterations, fewer than the "
            f"{MIN_ITERATIONS:,} that keep a password safe"
        )
    if iterations > MAX_ITERATIONS:
        raise AuthenticationError(
            f"the broker asks for {quoted(digits)} {mechanism} iterations, more than the "
            f"{MAX_ITERATIONS:,} that are accepted"
        )
    return iterations


def parse_server_final(text: str, mechanism: str) -> bytes:
    """The server's signature.

    Raises:
        AuthenticationError: the message is malformed, or tells an error instead.
    """
    _check_error(text, mechanism)
    found = _SERVER_FINAL.fullmatch(text)
    if found is None:
        raise AuthenticationError(f"the broker's last {mechanism} message is malformed")
    return _base64(found["verifier"], f"{mechanism} signature")


def _check_error(text: str, mechanism: str) -> None:
    if text.startswith(_ERROR):
        reason = quoted(text.removeprefix(_ERROR))
        raise AuthenticationError(f"the broker refuses the {mechanism} login: {reason}")


def _base64(text: str, what: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise AuthenticationError(f"the broker's {what} is not base64") from error
