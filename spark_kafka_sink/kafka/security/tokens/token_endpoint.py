"""Request tokens from an OAuth 2.0 issuer (RFC 6749), with retries (KIP-768).

An issuer's error response can contain parts of the request: the Authorization header, which
contains id and secret in base64, or a form, in which they are percent-encoded. `mask_secret`
removes the secret from such a text in each of these encodings.
"""

from __future__ import annotations

import binascii
import re
import ssl
import time
from base64 import b64decode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus, unquote_plus

from requests import RequestException, Response, Session
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth

from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.masking import redact_uri
from spark_kafka_sink.common.text import quoted
from spark_kafka_sink.common.time_limit import run_with_timeout
from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin, TlsConfig
from spark_kafka_sink.kafka.security.credentials import (
    CredentialsFingerprint,
    credentials_fingerprint,
    reveal_text,
)
from spark_kafka_sink.kafka.security.tls.client_context import system_authorities_note
from spark_kafka_sink.kafka.security.tls.context_cache import ContextCache
from spark_kafka_sink.kafka.security.tokens.token import (
    Token,
    number_field,
    parse_json_object,
    parse_token,
    text_field,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MASK = "***"
MAX_TEXT_LENGTH = 4_000
"""Maximum number of characters of a text that are retained."""
_SHORT = 4
"""Minimum length in characters of a secret that is searched for in encoded text. A shorter secret
would match almost any text that resembles base64.
"""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}")
_STANDARD = str.maketrans("-_", "+/")
_DEPTH = 3
"""Maximum number of nested encodings, such as base64 of percent-encoded text."""
_MAX_RESPONSE_BYTES = 1_000_000
"""Maximum size of a response in bytes, as in Java's HttpJwtRetriever."""
_CHUNK_BYTES = 16 * 1024
CONTEXTS = ContextCache()
"""TLS contexts for connections to issuers, shared by the process. Connections to brokers do not use
these contexts, because urllib3 modifies them.
"""
_OK = 200
_NOT_RETRIED = frozenset(
    [400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505]
)
"""HTTP status codes that are not retried, as in Java's HttpJwtRetriever, because the response would
be the same. Redirects are not followed, because the secret must not be sent to a different server.
"""
_UNTRUSTED = frozenset([7, 18, 19, 20, 21])
"""OpenSSL's X509_V_ERR_* codes for a wrong signature, a self-signed certificate (also within the
chain), and a missing issuer certificate.
"""
_CHECK = "Check kafka.sasl.oauthbearer.token.endpoint.url, client id, client secret and scope."
_TRUST = (
    "Set kafka.https.ca.location to a PEM file with the certificate of the issuer's authority, or "
    "set ssl.truststore.location in kafka.sasl.jaas.config; if neither is set, the operating "
    "system's authorities are trusted"
)


def mask_secret(text: str, client_id: str, secret: str) -> str:
    """Return the start of the text with the secret masked.

    A secret in clear text is replaced. If the secret is encoded, the whole word that contains it is
    replaced.
    """
    if not secret:
        return text[:MAX_TEXT_LENGTH]
    needles = [f"{client_id}:{secret}", f"{quote_plus(client_id)}:{quote_plus(secret)}"]
    if len(secret) >= _SHORT:
        needles.append(secret)
    words = re.split(r"(\s+)", text[:MAX_TEXT_LENGTH].replace(secret, MASK))
    return "".join(MASK if _holds(word, needles) else word for word in words)


def _holds(text: str, needles: list[str], depth: int = _DEPTH) -> bool:
    if any(needle in text for needle in needles):
        return True
    return depth > 0 and any(_holds(inner, needles, depth - 1) for inner in _decoded(text))


def _decoded(text: str) -> Iterator[str]:
    """Yield possible decodings of a text, of which some can be meaningless."""
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "%" in text:
        yield unquote_plus(text.replace("+", "%2B"))
    for run in _BASE64.findall(text):
        digits = run.translate(_STANDARD)
        # The word's first characters might not be part of the encoded text.
        for start in range(min(4, len(digits) - 3)):
            yield from _of_base64(digits[start:])


def _of_base64(digits: str) -> Iterator[str]:
    whole = digits[: len(digits) - 1] if len(digits) % 4 == 1 else digits
    try:
        yield b64decode(whole + "=" * (-len(whole) % 4)).decode(errors="replace")
    except binascii.Error:
        return


def next_wait_ms(
    attempts: int, elapsed_ms: float, backoff_ms: int, backoff_max_ms: int
) -> float | None:
    """Return the time to wait before the next attempt.

    Args:
        attempts: number of attempts so far, at least one.
        elapsed_ms: milliseconds since the first attempt started.
        backoff_ms: sasl.login.retry.backoff.ms, which doubles with each attempt.
        backoff_max_ms: sasl.login.retry.backoff.max.ms, the limit for all attempts, as in Java.

    Returns:
        Milliseconds to wait, or None if the request must not be retried.
    """
    wait = min(backoff_ms * 2.0 ** min(attempts - 1, 60), backoff_max_ms - elapsed_ms)
    return wait if wait > 0 else None


class TooLargeError(Exception):
    """The response has more than `_MAX_RESPONSE_BYTES` bytes."""


class VerifyingAdapter(HTTPAdapter):
    """HTTPS with a given TLS context. Authorities from certifi or the environment are not used.

    Args:
        context: TLS context with the trusted authorities and the client's certificate.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._tls: dict[str, Any] = {"ssl_context": context}
        if not context.check_hostname:
            self._tls["assert_hostname"] = False
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """See `HTTPAdapter`."""
        super().init_poolmanager(*args, **(kwargs | self._tls))

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """See `HTTPAdapter`."""
        return super().proxy_manager_for(*args, **(kwargs | self._tls))

    def build_connection_pool_key_attributes(
        self, request: Any, verify: Any, cert: Any = None
    ) -> Any:
        """See `HTTPAdapter`. `verify` can come from the environment and is ignored."""
        del verify
        return super().build_connection_pool_key_attributes(request, True, cert)

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """See `HTTPAdapter`. Does nothing, because the context already contains the authorities."""


def prepare(session: Session, login: ClientCredentialsLogin) -> None:
    """Configure a session to verify the issuer with the login's TLS settings.

    Raises:
        ConfigError: a trust store or key store cannot be read on this host.
    """
    context = CONTEXTS.context(login.tls or TlsConfig())
    session.mount("https://", VerifyingAdapter(context))


def read_body(response: Response) -> bytes:
    """Read the body of a streamed response.

    Raises:
        TooLargeError: the body has more than `_MAX_RESPONSE_BYTES` bytes.
    """
    body = bytearray()
    for chunk in response.iter_content(_CHUNK_BYTES):
        body += cast("bytes", chunk)
        if len(body) > _MAX_RESPONSE_BYTES:
            raise TooLargeError
    return bytes(body)


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A failed request, with the error and True if the request can be retried."""

    error: AuthenticationError
    retriable: bool


class TokenEndpoint:
    """An issuer's token endpoint, for one client.

    Args:
        login: URL and credentials.
    """

    def __init__(self, login: ClientCredentialsLogin) -> None:
        self._login = login
        self._shown_url = _shown_url_of(login.token_endpoint_url)
        self._client_id = reveal_text(login.client_id)
        self._client_secret = reveal_text(login.client_secret)

    def request(self, now_ms: int) -> Token | FailedRequest:
        """Request a token, and return the token or the reason for the failure.

        Args:
            now_ms: current time in milliseconds since 1970, used to compute the expiry time.

        Raises:
            ConfigError: a trust store or key store cannot be read on this host.
        """
        limit_s = (self._login.connect_timeout_ms + self._login.read_timeout_ms) / 1_000
        try:
            status, body = run_with_timeout(limit_s, self._shown_url, self._post)
        except TimeoutError as error:
            return self._failed(f"did not respond: {error}", retriable=True)
        except TooLargeError:
            return self._failed(
                f"returned more than {_MAX_RESPONSE_BYTES:,} bytes", retriable=False
            )
        except (RequestException, OSError, ValueError) as error:
            return self._unreachable(error)
        return self._read(status, body, now_ms)

    def _post(self) -> tuple[int, bytes]:
        """Send the request; return the status and the body of the response.

        Raises:
            RequestException: no response was received.
            TooLargeError: the response is too large.
        """
        login = self._login
        optional = {"scope": login.scope, "audience": login.audience}
        with Session() as session:
            prepare(session, login)
            response = session.post(
                login.token_endpoint_url,
                data={"grant_type": "client_credentials", **optional},  # None is not sent.
                headers={"Accept": "application/json"},
                auth=self._basic_auth(),
                timeout=(login.connect_timeout_ms / 1_000, login.read_timeout_ms / 1_000),
                allow_redirects=False,
                stream=True,
            )
            return response.status_code, read_body(response)

    def _basic_auth(self) -> HTTPBasicAuth:
        """Return HTTP basic authentication with id and secret in UTF-8, like Java."""
        quote = quote_plus if self._login.header_urlencode else str
        return HTTPBasicAuth(quote(self._client_id).encode(), quote(self._client_secret).encode())

    def _read(self, status: int, body: bytes, now_ms: int) -> Token | FailedRequest:
        content = parse_json_object(body)
        if status != _OK or content is None or "error" in content:
            return self._explain_missing_token(status, content)
        access_token = text_field(content, "access_token")
        if access_token is None:
            return self._failed("returned no access_token", retriable=False)
        lifetime = number_field(content, "expires_in")
        expires_ms = None if lifetime is None else now_ms + int(lifetime * 1_000)
        try:
            token = parse_token(access_token.strip(), self._shown_url, expires_ms)
        except AuthenticationError as error:
            return FailedRequest(error, retriable=False)
        # If a token has already expired when it is received, this host's clock is wrong.
        return replace(token, expires_ms=expires_ms) if token.is_expired(now_ms) else token

    def _explain_missing_token(
        self, status: int, content: dict[str, object] | None
    ) -> FailedRequest:
        """Return the failure for a response without a token."""
        fields = content or {}
        words = [text_field(fields, "error"), text_field(fields, "error_description")]
        details = ": ".join(self._harmless(word) for word in words if word is not None)
        problem = f"returned HTTP status {status}" + (f": {details}" if details else "")
        if status == _OK and not details:
            problem = "returned a response that is not a JSON object"
        retriable = status not in _NOT_RETRIED and not _OK <= status < 400
        return self._failed(problem, retriable=retriable)

    def _harmless(self, text: str) -> str:
        return quoted(mask_secret(text, self._client_id, self._client_secret))

    def _unreachable(self, error: Exception) -> FailedRequest:
        """Return the failure for a missing response. Host names and URLs are not shown."""
        reason = _root_of(error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            return self._failed(
                f"has an invalid certificate: {reason.verify_message}",
                retriable=False,
                hint=f"{_TRUST}{system_authorities_note()}."
                if reason.verify_code in _UNTRUSTED
                else _CHECK,
            )
        if isinstance(error, ValueError):
            return self._failed(f"is not a valid URL: {type(error).__name__}", retriable=False)
        return self._failed(f"cannot be reached: {_why(reason)}", retriable=True)

    def _failed(self, problem: str, *, retriable: bool, hint: str = _CHECK) -> FailedRequest:
        return FailedRequest(
            AuthenticationError(f"{self._shown_url} {problem}", hint=hint), retriable
        )


def _shown_url_of(url: str) -> str:
    """Return the endpoint's name for errors. Text that is not a URL is not shown."""
    try:
        return f"the token endpoint {redact_uri(url)}" if "://" in url else "the token endpoint"
    except ValueError:
        return "the token endpoint"


def _root_of(error: BaseException) -> BaseException:
    """Return the innermost cause, which is an error of the operating system or of OpenSSL."""
    seen = error
    for _ in range(20):
        inner = _inner(seen)
        if inner is None:
            break
        seen = inner
    return seen


def _why(reason: BaseException) -> str:
    if isinstance(reason, TimeoutError):
        return "timeout"
    if isinstance(reason, ssl.SSLError):
        return f"TLS: {reason.reason}"
    return (isinstance(reason, OSError) and reason.strerror) or type(reason).__name__


def _inner(error: BaseException) -> BaseException | None:
    wrapped = getattr(error, "reason", None)
    candidates = [wrapped, *error.args, error.__cause__, error.__context__]
    return next(
        (candidate for candidate in candidates if isinstance(candidate, BaseException)), None
    )


@dataclass(frozen=True, slots=True)
class ClientCredentialsSource:
    """See `TokenSource`.

    Args:
        login: URL and credentials.
        clock: clock for expiry times and retries.
        sleep: waits for the given number of seconds.
    """

    login: ClientCredentialsLogin
    clock: Clock = field(default_factory=SystemClock, compare=False)
    sleep: Callable[[float], None] = field(default=time.sleep, compare=False)

    @property
    def cache_key(self) -> tuple[ClientCredentialsLogin, CredentialsFingerprint]:
        """See `TokenSource`.

        The key includes a stamp, because equal settings can refer to a changed secret.
        """
        return self.login, credentials_fingerprint(self.login)

    def fetch(self) -> Token:
        """Request a token, with retries.

        Raises:
            AuthenticationError: a failure is not retriable, or all attempts failed. If all attempts
                failed, the error of the first attempt is raised, as in Java.
            ConfigError: id, secret or trusted certificates cannot be read on this host.
        """
        endpoint = TokenEndpoint(self.login)
        began = self.clock.monotonic()
        attempts = 0
        first = None
        while True:
            response = endpoint.request(self.clock.wall_ms())
            if not isinstance(response, FailedRequest):
                return response
            attempts, first = attempts + 1, first or response.error
            if not response.retriable:
                raise response.error
            elapsed_ms = (self.clock.monotonic() - began) * 1_000
            backoff = self.login.retry_backoff_ms, self.login.retry_backoff_max_ms
            wait_ms = next_wait_ms(attempts, elapsed_ms, *backoff)
            if wait_ms is None:
                raise first
            self.sleep(wait_ms / 1_000)
