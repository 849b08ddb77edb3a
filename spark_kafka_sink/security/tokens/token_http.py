"""How a request goes to a token endpoint: verified as the options say, bounded in size and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from requests.adapters import HTTPAdapter

from spark_kafka_sink.config.security.model import TlsConfig
from spark_kafka_sink.security.tls.context_cache import ContextCache

if TYPE_CHECKING:
    import ssl

    from requests import Response, Session

    from spark_kafka_sink.config.security.model import ClientCredentialsLogin

LARGEST = 1_000_000
"""Bytes of an answer, as in Java's HttpJwtRetriever."""
_CHUNK = 16 * 1024
CONTEXTS = ContextCache()
"""Those of this process for issuers: urllib3 changes them, so brokers' connections have others."""


class TooLargeError(Exception):
    """The answer has more than `LARGEST` bytes."""


class VerifyingAdapter(HTTPAdapter):
    """HTTPS with a context of ours: neither certifi's authorities nor the environment's are added.

    Args:
        context: whom to believe, and who the client is.
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
        """See `HTTPAdapter`; `verify` may come from the environment, and the context has it all."""
        del verify
        return super().build_connection_pool_key_attributes(request, True, cert)

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """See `HTTPAdapter`: the context has its authorities already."""


def prepare(session: Session, login: ClientCredentialsLogin) -> None:
    """Make a session verify the issuer as the login says.

    Raises:
        ConfigError: a trust store or key store can't be read on this host.
    """
    context = CONTEXTS.context(login.tls or TlsConfig())
    session.mount("https://", VerifyingAdapter(context))


def body_of(response: Response) -> bytes:
    """A streamed answer's body.

    Raises:
        TooLargeError: there is more than `LARGEST` bytes of it.
    """
    body = bytearray()
    for chunk in response.iter_content(_CHUNK):
        body += cast("bytes", chunk)
        if len(body) > LARGEST:
            raise TooLargeError
    return bytes(body)
