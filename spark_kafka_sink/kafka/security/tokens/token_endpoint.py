"""One request for a token to an OAuth 2.0 issuer (RFC 6749, client credentials grant)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from requests import RequestException, Session
from requests.auth import HTTPBasicAuth

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.masking import redact_uri
from spark_kafka_sink.common.text import quoted
from spark_kafka_sink.common.time_limit import run_with_timeout
from spark_kafka_sink.kafka.security.credentials import reveal_text
from spark_kafka_sink.kafka.security.tls.client_context import system_authorities_note
from spark_kafka_sink.kafka.security.tokens.issuer_https import (
    MAX_RESPONSE_BYTES,
    ResponseTooLargeError,
    mount_tls,
    read_body,
)
from spark_kafka_sink.kafka.security.tokens.json_values import (
    json_number,
    json_text,
    parse_json_object,
)
from spark_kafka_sink.kafka.security.tokens.secret_masking import mask_secret
from spark_kafka_sink.kafka.security.tokens.token import (
    Token,
    parse_token,
)

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin

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
        except ResponseTooLargeError:
            return self._failed(f"returned more than {MAX_RESPONSE_BYTES:,} bytes", retriable=False)
        except (RequestException, OSError, ValueError) as error:
            return self._unreachable(error)
        return self._read_response(status, body, now_ms)

    def _post(self) -> tuple[int, bytes]:
        """Send the request; return the status and the body of the response.

        Raises:
            RequestException: no response was received.
            ResponseTooLargeError: the response is too large.
        """
        login = self._login
        optional = {"scope": login.scope, "audience": login.audience}
        with Session() as session:
            mount_tls(session, login)
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

    def _read_response(self, status: int, body: bytes, now_ms: int) -> Token | FailedRequest:
        content = parse_json_object(body)
        if status != _OK or content is None or "error" in content:
            return self._explain_missing_token(status, content)
        access_token = json_text(content, "access_token")
        if access_token is None:
            return self._failed("returned no access_token", retriable=False)
        lifetime = json_number(content, "expires_in")
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
        words = [json_text(fields, "error"), json_text(fields, "error_description")]
        details = ": ".join(self._masked(word) for word in words if word is not None)
        problem = f"returned HTTP status {status}" + (f": {details}" if details else "")
        if status == _OK and not details:
            problem = "returned a response that is not a JSON object"
        retriable = status not in _NOT_RETRIED and not _OK <= status < 400
        return self._failed(problem, retriable=retriable)

    def _masked(self, text: str) -> str:
        return quoted(mask_secret(text, self._client_id, self._client_secret))

    def _unreachable(self, error: Exception) -> FailedRequest:
        """Return the failure for a missing response. Host names and URLs are not shown."""
        reason = _root_cause(error)
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
        return self._failed(f"cannot be reached: {_describe_cause(reason)}", retriable=True)

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


def _root_cause(error: BaseException) -> BaseException:
    """Return the innermost cause, which is an error of the operating system or of OpenSSL."""
    seen = error
    for _ in range(20):
        cause = _direct_cause(seen)
        if cause is None:
            break
        seen = cause
    return seen


def _describe_cause(reason: BaseException) -> str:
    if isinstance(reason, TimeoutError):
        return "timeout"
    if isinstance(reason, ssl.SSLError):
        return f"TLS: {reason.reason}"
    return (isinstance(reason, OSError) and reason.strerror) or type(reason).__name__


def _direct_cause(error: BaseException) -> BaseException | None:
    wrapped = getattr(error, "reason", None)
    candidates = [wrapped, *error.args, error.__cause__, error.__context__]
    return next(
        (candidate for candidate in candidates if isinstance(candidate, BaseException)), None
    )
