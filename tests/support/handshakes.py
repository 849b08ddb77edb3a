"""Handshakes between a client's context and a real server's, with no socket between them."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tools.support.certificates import CertificateAuthority, IssuedCertificate


def server_context(folder: Path, server: IssuedCertificate) -> ssl.SSLContext:
    """Shows a certificate and asks for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.write(folder, "of-the-server"))
    return context


def demanding_context(
    folder: Path, server: IssuedCertificate, clients: CertificateAuthority
) -> ssl.SSLContext:
    """Wants a client's certificate, signed by an authority."""
    context = server_context(folder, server)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=clients.certificate_pem)
    return context


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Both sides of a connection, bytes carried by hand; returns the client's side.

    Raises:
        ssl.SSLError: the one that the client meets, in the handshake or at the first read after.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=host)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    refusal = _finish(near, far)
    if refusal is not None:
        near.read()
        raise refusal
    far.write(b"hello")
    assert near.read() == b"hello"
    near.write(b"hello")
    assert far.read() == b"hello"
    return near


def _finish(near: ssl.SSLObject, far: ssl.SSLObject) -> ssl.SSLError | None:
    """Carries on until both are done; what the server refused, if the client is done."""
    near_done = far_done = False
    refusal: ssl.SSLError | None = None
    while not (near_done and far_done):
        near_done = near_done or _step(near)
        if refusal is not None:
            return refusal
        try:
            far_done = far_done or _step(far)
        except ssl.SSLError as error:
            refusal = error
    return None


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
