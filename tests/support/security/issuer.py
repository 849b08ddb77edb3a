"""A small OpenID Connect issuer: signed tokens for client credentials, and its public keys.

OAuth 2.0 client credentials (RFC 6749, 4.4), JWT (RFC 7519) signed with RS256, JWKS (RFC 7517).
"""

import base64
import json
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"
_KEY_ID = "key-1"
_LIFETIME_S = 600


@dataclass(slots=True)
class TokenRequests:
    """Token requests received so far; guarded by `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    tokens: list[str] = field(default_factory=list)
    """The client ID of each issued token."""
    rejected: int = 0
    lifetimes_s: dict[str, int] = field(default_factory=dict)
    """Token lifetime in seconds by client ID, if it differs from the default."""


class Issuer:
    """Serves `/token` and `/jwks` on loopback over http, and over https if there is a certificate.

    Args:
        secrets: client secrets by client ID; the subject of a token is the client ID.
        certificate: PEM file with key and chain for https.
    """

    def __init__(self, secrets: dict[str, str], certificate: Path | None = None) -> None:
        self.token_requests = TokenRequests()
        self._secrets = dict(secrets)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._plain = _serve(self)
        self._encrypted = None if certificate is None else _serve(self, certificate)

    @property
    def url(self) -> str:
        """Return the issuer claim of the tokens."""
        return f"http://127.0.0.1:{self._plain.server_port}"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    @property
    def https_token_url(self) -> str:
        """Return the https URL of the token endpoint.

        Raises:
            ValueError: the issuer has no certificate.
        """
        if self._encrypted is None:
            raise ValueError("the issuer has no certificate")
        return f"https://localhost:{self._encrypted.server_port}/token"

    @property
    def allowed_urls(self) -> str:
        """Return the value of Java's system property for allowed OAuth URLs."""
        urls = [self.token_url, self.jwks_url]
        return ",".join(urls if self._encrypted is None else [*urls, self.https_token_url])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the servers; can be called more than once."""
        for server in (self._plain, self._encrypted):
            if server is not None:
                server.shutdown()
                server.server_close()

    def token(self, subject: str, lifetime_s: int = _LIFETIME_S, **claims: Any) -> str:
        """Return a signed token; `claims` extend or override the default claims."""
        now = int(time.time())
        defaults = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": subject,
            "iat": now,
            "exp": now + lifetime_s,
            "scope": "kafka",
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        signed = f"{_encoded(header)}.{_encoded({**defaults, **claims})}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def jwks(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID}
        return {"keys": [{**key, "n": _integer(numbers.n), "e": _integer(numbers.e)}]}

    def grant(self, client_id: str, secret: str) -> tuple[int, dict[str, Any]]:
        """Return status and body of the response to a token request."""
        with self.token_requests.lock:
            if self._secrets.get(client_id) != secret:
                self.token_requests.rejected += 1
                text = "wrong client id or secret"
                return 401, {"error": "invalid_client", "error_description": text}
            self.token_requests.tokens.append(client_id)
            lifetime_s = self.token_requests.lifetimes_s.get(client_id, _LIFETIME_S)
        token = self.token(client_id, lifetime_s)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": lifetime_s}


def _serve(issuer: Issuer, certificate: Path | None = None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.path == "/jwks"
            self._respond(200 if is_known else 404, issuer.jwks() if is_known else {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            form = dict(urllib.parse.parse_qsl(body))
            if self.path != "/token" or form.get("grant_type") != "client_credentials":
                self._respond(400, {"error": "unsupported_grant_type"})
                return
            self._respond(*issuer.grant(*_credentials(self.headers.get("Authorization"), form)))

        def _respond(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def _credentials(header: str | None, form: dict[str, str]) -> tuple[str, str]:
    """Return ID and secret from HTTP Basic authentication, as Java sends them, or from the form."""
    if header is None or not header.startswith("Basic "):
        return form.get("client_id", ""), form.get("client_secret", "")
    name, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
    return urllib.parse.unquote_plus(name), urllib.parse.unquote_plus(secret)


def _encoded(content: dict[str, Any]) -> str:
    return _base64(json.dumps(content).encode())


def _integer(number: int) -> str:
    return _base64(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
