"""SASL of the fake brokers, and calls that run when a test releases them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    Mechanism,
    PasswordLogin,
    SaslConfig,
    SecurityConfig,
    SecurityProtocol,
)
from spark_kafka_sink.kafka.client.channel.background import CallResult
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, as_error_code
from spark_kafka_sink.kafka.protocol.versions import ApiKey

_FIRST_REQUESTS = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def password_login(password: str = "open sesame", user: str = "alice") -> SecurityConfig:
    """Return a configuration for PLAIN without TLS."""
    login = PasswordLogin(
        username=Secret(user, "kafka.sasl.username"), password=Secret(password, "the password")
    )
    return SecurityConfig(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl=SaslConfig(mechanism=Mechanism.PLAIN, login=login),
    )


@dataclass
class FakeSasl:
    """SASL authentication of the fake brokers, with PLAIN."""

    mechanisms: tuple[str, ...] = ("PLAIN",)
    password: str = "open sesame"
    lifetime_ms: int = 0
    rejecting: set[int] = field(default_factory=set)
    """Brokers that reject every password."""
    logins: list[tuple[int, bool]] = field(default_factory=list)
    """Broker and result (True if accepted) of each login."""

    def allows(self, api: ApiKey, *, logged_in: bool) -> bool:
        """Return True if the connection may send this request; otherwise it is closed."""
        return logged_in or api in _FIRST_REQUESTS

    def handshake(self, request: Any) -> dict[str, Any]:
        known = request.mechanism in self.mechanisms
        code = as_error_code(0 if known else ErrorCode.unsupported_sasl_mechanism)
        return {"error_code": code, "mechanisms": list(self.mechanisms)}

    def authenticate(self, node: int, request: Any) -> dict[str, Any]:
        *_, password = bytes(request.auth_bytes).split(b"\0")
        accepted = password.decode() == self.password and node not in self.rejecting
        self.logins.append((node, accepted))
        if not accepted:
            return {
                "error_code": ErrorCode.sasl_authentication_failed,
                "error_message": "Authentication failed: Invalid username or password",
                "auth_bytes": b"",
            }
        return {"auth_bytes": b"", "session_lifetime": timedelta(milliseconds=self.lifetime_ms)}


class ManualCalls:
    """Replaces `BackgroundCalls`: runs calls immediately, or after `holding` is reset."""

    def __init__(self) -> None:
        self.holding = False
        self.error: Exception | None = None
        """Raised instead of running any call."""
        self.waiting: list[tuple[object, Callable[[], Any]]] = []

    def run(self, owner: object, call: Callable[[], Any], wakeup: Callable[[], None]) -> None:
        self.waiting.append((owner, call))
        wakeup()

    def cancel(self, owner: object) -> None:
        self.waiting = [(waiting, call) for waiting, call in self.waiting if waiting is not owner]

    def take_results(self) -> list[CallResult]:
        if self.holding:
            return []
        waiting, self.waiting = self.waiting, []
        return [self._run(owner, call) for owner, call in waiting]

    def _run(self, owner: object, call: Callable[[], Any]) -> CallResult:
        if self.error is not None:
            return CallResult(owner=owner, error=self.error)
        try:
            return CallResult(owner=owner, value=call())
        except Exception as error:  # noqa: BLE001 - the sender thread raises it
            return CallResult(owner=owner, error=error)
