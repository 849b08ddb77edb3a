"""A token endpoint on loopback with scripted responses that records its requests."""

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: dict[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class Response:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def granted(token: str, **content: Any) -> Response:
    return Response(body=json.dumps({"access_token": token, **content}).encode())


class ScriptedIssuer:
    """Responds to each request with `answer(number of the request)`."""

    def __init__(self, answer: Callable[[int], Response], certificate: Path | None = None) -> None:
        self.requests: list[Request] = []
        """Guarded by `_lock` while it grows."""
        self._lock = threading.Lock()
        self._answer = answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, request: Request) -> Response:
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        return self._answer(number)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
                answer = issuer.take(Request(self.path, dict(self.headers), body))
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Suppress the server's log."""

        return Handler
