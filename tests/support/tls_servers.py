"""Servers for failing TLS handshakes: `openssl s_server` and servers without TLS."""

import re
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

_WAIT_S = 60
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
Result = TypeVar("Result")


@contextmanager
def openssl_server(certificate: Path, *options: str) -> Iterator[int]:
    """Run an `openssl s_server` for one connection and yield its port.

    Args:
        certificate: PEM file with key and chain.
        options: command-line options, such as -tls1_2 or -Verify 1.
    """
    with commanded_openssl_server(certificate, *options) as (port, _):
        yield port


@contextmanager
def commanded_openssl_server(
    certificate: Path, *options: str
) -> Iterator[tuple[int, Callable[[str], None]]]:
    """Run an `openssl s_server` and yield its port and a function that writes to its input.

    The input is a command, such as K (update the keys), or text to send.
    """
    line = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-naccept", "1", *options]
    line += ["-cert", str(certificate), "-key", str(certificate), "-cert_chain", str(certificate)]
    server = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )

    def command(line: str) -> None:
        assert server.stdin is not None
        server.stdin.write(f"{line}\n")
        server.stdin.flush()

    try:
        yield _announced_port(server), command
    finally:
        server.kill()
        server.communicate()


def _announced_port(server: subprocess.Popen[str]) -> int:
    printed = ""
    for line in server.stdout or ():
        printed += line
        if match := re.search(r"ACCEPT \S+:(\d+)", line):
            return int(match[1])
    raise RuntimeError(f"openssl s_server did not start:\n{printed}")


@contextmanager
def plain_server(reply: bytes | None, *, reset: bool = False) -> Iterator[int]:
    """Run a server that responds to the first bytes of one client and closes; yield its port.

    Args:
        reply: the response, or None to send nothing.
        reset: reset the connection instead of closing it.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_WAIT_S)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(reply or b"")
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(_WAIT_S)


def connection_error(context: ssl.SSLContext, port: int, host: str) -> OSError:
    """Connect to 127.0.0.1 as `host` and return the error of the handshake or the first read."""
    with socket.create_connection(("127.0.0.1", port), timeout=_WAIT_S) as connection:
        return _Attempt(context, connection, host).error()


class _Attempt:
    def __init__(self, context: ssl.SSLContext, connection: socket.socket, host: str) -> None:
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def error(self) -> OSError:
        try:
            self._run(self._tls.do_handshake)
            read = self._run(self._tls.read)
        except OSError as error:
            return error
        raise AssertionError(f"the handshake succeeded, and {read!r} was read")

    def _run(self, step: Callable[[], Result]) -> Result:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._receive()
            finally:
                with suppress(OSError):
                    self._connection.sendall(self._outgoing.read())

    def _receive(self) -> None:
        self._connection.sendall(self._outgoing.read())
        received = self._connection.recv(65536)
        if received:
            self._incoming.write(received)
        else:
            self._incoming.write_eof()
