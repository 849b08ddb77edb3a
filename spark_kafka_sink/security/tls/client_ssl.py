"""The client's side of a handshake: what OpenSSL alone neither does nor tells.

Python's ssl can't choose among the suites of TLS 1.3, so what was agreed on is checked before a
byte of Kafka's is sent. An error of verification carries the broker's certificate, so that the
sentence for the user can say which names it has.
"""

from __future__ import annotations

import ssl
from typing import Any


class PeerCertificateError(ssl.SSLCertVerificationError):
    """A certificate that was not accepted, and the certificate."""

    certificate: bytes | None = None
    """As DER; None where the broker sent none, or Python does not tell."""


class CipherSuiteError(ssl.SSLError):
    """The broker chose a suite that ssl.cipher.suites does not name."""


class ClientSslObject(ssl.SSLObject):
    """Made by `ClientSslContext.wrap_bio`."""

    def do_handshake(self) -> None:
        """Go on with the handshake.

        Raises:
            ssl.SSLWantReadError: more bytes of the broker's are needed.
            PeerCertificateError: its certificate is not accepted.
            CipherSuiteError: its choice is not among the suites that the options allow.
            ssl.SSLError: all else.
        """
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise _with_certificate(error, self) from error
        agreed = self.cipher()
        allowed = getattr(self.context, "tls_1_3_suites", None)
        if allowed and agreed and agreed[1] == "TLSv1.3" and agreed[0] not in allowed:
            raise CipherSuiteError(1, f"the broker chose {agreed[0]}")


class ClientSslContext(ssl.SSLContext):
    """A context whose connections are `ClientSslObject`s."""

    sslobject_class = ClientSslObject
    tls_1_3_suites: frozenset[str] = frozenset()
    """Those of TLS 1.3 that may be agreed on; empty for all."""


def _with_certificate(
    error: ssl.SSLCertVerificationError, connection: ssl.SSLObject
) -> PeerCertificateError:
    told = PeerCertificateError(*error.args)
    told.reason, told.library = error.reason, error.library
    told.verify_code, told.verify_message = error.verify_code, error.verify_message
    told.certificate = _peer_certificate(connection)
    return told


def _peer_certificate(connection: ssl.SSLObject) -> bytes | None:
    """The certificate of a handshake that failed, which getpeercert() won't give.

    get_unverified_chain is public from Python 3.13 on, and gives bytes.
    """
    public = getattr(connection, "get_unverified_chain", None)
    if public is not None:
        return next(iter(public()), None)
    inner: Any = getattr(connection, "_sslobj", None)
    chain = inner.get_unverified_chain() if hasattr(inner, "get_unverified_chain") else None
    if not chain:
        return None
    return ssl.PEM_cert_to_DER_cert(chain[0].public_bytes())
