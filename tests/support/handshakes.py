"""TLS handshakes in memory between the SSL contexts of a client and a server."""

import ssl
from pathlib import Path

from tools.support.certificates import CertificateAuthority, IssuedCertificate


def server_context(folder: Path, server: IssuedCertificate) -> ssl.SSLContext:
    """Return a context with a certificate that does not request one from the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.write(folder, "of-the-server"))
    return context


def demanding_context(
    folder: Path, server: IssuedCertificate, clients: CertificateAuthority
) -> ssl.SSLContext:
    """Return a context that requires a client certificate signed by `clients`."""
    context = server_context(folder, server)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=clients.certificate_pem)
    return context


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Complete a handshake, transfer data in both directions and return the client side.

    Raises:
        ssl.SSLError: the client's error, in the handshake or at the first read after it.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_tls = client.wrap_bio(to_client, to_server, server_hostname=host)
    server_tls = server.wrap_bio(to_server, to_client, server_side=True)
    server_error = _finish(client_tls, server_tls)
    if server_error is not None:
        client_tls.read()
        raise server_error
    server_tls.write(b"hello")
    assert client_tls.read() == b"hello"
    client_tls.write(b"hello")
    assert server_tls.read() == b"hello"
    return client_tls


def _finish(client: ssl.SSLObject, server: ssl.SSLObject) -> ssl.SSLError | None:
    """Complete both sides; return the server's error if the client has finished."""
    client_done = server_done = False
    server_error: ssl.SSLError | None = None
    while not (client_done and server_done):
        client_done = client_done or _step(client)
        if server_error is not None:
            return server_error
        try:
            server_done = server_done or _step(server)
        except ssl.SSLError as error:
            server_error = error
    return None


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
