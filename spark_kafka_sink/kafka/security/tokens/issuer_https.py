"""HTTPS to a token issuer: its TLS context, and the size limit of its responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from requests.adapters import HTTPAdapter

from spark_kafka_sink.config.security.security_config import TlsConfig
from spark_kafka_sink.kafka.security.tls.context_cache import ContextCache

if TYPE_CHECKING:
    import ssl

    from requests import Response, Session

    from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin

MAX_RESPONSE_BYTES = 1_000_000
"""Maximum size of a response in bytes, as in Java's HttpJwtRetriever."""
_CHUNK_BYTES = 16 * 1024
issuer_contexts = ContextCache()
"""TLS contexts for connections to issuers, shared by the process. Connections to brokers do not use
these contexts, because urllib3 modifies them.
"""


class ResponseTooLargeError(Exception):
    """The response has more than `MAX_RESPONSE_BYTES` bytes."""


class _VerifyingAdapter(HTTPAdapter):
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


def mount_tls(session: Session, login: ClientCredentialsLogin) -> None:
    """Configure a session to verify the issuer with the login's TLS settings.

    Raises:
        ConfigError: a trust store or key store cannot be read on this host.
    """
    context = issuer_contexts.context(login.tls or TlsConfig())
    session.mount("https://", _VerifyingAdapter(context))


def read_body(response: Response) -> bytes:
    """Read the body of a streamed response.

    Raises:
        ResponseTooLargeError: the body has more than `MAX_RESPONSE_BYTES` bytes.
    """
    body = bytearray()
    for chunk in response.iter_content(_CHUNK_BYTES):
        body += cast("bytes", chunk)
        if len(body) > MAX_RESPONSE_BYTES:
            raise ResponseTooLargeError
    return bytes(body)
