"""Client credentials with a real HTTP server: requests, retries and error messages."""

import json
import socket
import ssl
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    ClientCredentialsLogin,
    Mechanism,
    RefreshPolicy,
    SaslConfig,
    StoreType,
    TlsConfig,
    TrustStore,
)
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from spark_kafka_sink.kafka.security.tls.client_context import create_client_context
from spark_kafka_sink.kafka.security.tls.context_cache import ContextCache, broker_contexts
from spark_kafka_sink.kafka.security.tokens import issuer_https
from spark_kafka_sink.kafka.security.tokens.client_credentials import ClientCredentialsSource
from spark_kafka_sink.kafka.security.tokens.token_cache import TokenCache
from tests.support.clock import ManualClock
from tests.unit.kafka.security.tokens.logins import SECRET, client_login, jwt
from tests.unit.kafka.security.tokens.scripted_issuer import Response, ScriptedIssuer, granted
from tools.support.certificates import EXPIRED, CertificateAuthority


def always(answer: Response) -> Callable[[int], Response]:
    return lambda _number: answer


class FakeSleep:
    """A sleep that records its durations and returns at once."""

    def __init__(self) -> None:
        self.clock = ManualClock(start_ms=1_700_000_000_000)
        self.waited: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waited.append(round(seconds, 3))
        self.clock.advance(seconds)


def source(
    login: ClientCredentialsLogin, waits: FakeSleep | None = None
) -> ClientCredentialsSource:
    waits = waits or FakeSleep()
    return ClientCredentialsSource(login, waits.clock, waits.sleep)


def failure(login: ClientCredentialsLogin, waits: FakeSleep | None = None) -> str:
    with pytest.raises(AuthenticationError) as caught:
        source(login, waits).fetch()
    text = str(caught.value)
    assert SECRET not in text
    assert text.isprintable()
    assert len(text) < 800
    return text


def test_request_has_the_form_of_rfc_6749() -> None:
    with ScriptedIssuer(always(granted("opaque", expires_in=300))) as issuer:
        token = source(client_login(issuer.url, scope="kafka write", audience="brokers")).fetch()
    (request,) = issuer.requests
    assert parse_qs(request.body) == {
        "grant_type": ["client_credentials"],
        "scope": ["kafka write"],
        "audience": ["brokers"],
    }
    kind, _, encoded = request.headers["Authorization"].partition(" ")
    assert kind == "Basic"
    assert b64decode(encoded).decode() == f"the-client:{SECRET}"
    assert request.headers["Accept"] == "application/json"
    assert request.headers["Content-Type"].startswith("application/x-www-form-urlencoded")
    assert (token.value, token.expires_ms) == ("opaque", 1_700_000_300_000)


def test_id_and_secret_are_url_encoded_if_required() -> None:
    with ScriptedIssuer(always(granted("opaque"))) as issuer:
        source(client_login(issuer.url, header_urlencode=True)).fetch()
    (request,) = issuer.requests
    encoded = request.headers["Authorization"].partition(" ")[2]
    assert b64decode(encoded) == b"the-client:s3cr3t%3Aw%C3%B6rd%2B%2F%3D"
    assert parse_qs(request.body) == {"grant_type": ["client_credentials"]}


def test_expiry_of_a_jwt_has_priority() -> None:
    text = jwt(sub="a", exp=1_700_000_100, iat=1_700_000_000)
    with ScriptedIssuer(always(granted(text, expires_in=999_999))) as issuer:
        token = source(client_login(issuer.url)).fetch()
    assert (token.expires_ms, token.starts_ms) == (1_700_000_100_000, 1_700_000_000_000)


@pytest.mark.parametrize(
    ("content", "expires_ms"), [({"expires_in": 60}, 1_700_000_060_000), ({}, None)]
)
def test_token_expired_by_clock_skew_is_kept(
    content: dict[str, int], expires_ms: int | None
) -> None:
    text = jwt(sub="a", exp=1_600_000_000)
    with ScriptedIssuer(always(granted(text, **content))) as issuer:
        assert source(client_login(issuer.url)).fetch().expires_ms == expires_ms


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            Response(401, b'{"error":"invalid_client","error_description":"no such client"}'),
            ["HTTP status 401", "invalid_client", "no such client"],
        ),
        (Response(400, b'{"error":"invalid_scope"}'), ["HTTP status 400", "invalid_scope"]),
        (Response(404, b"<html>not here</html>"), ["HTTP status 404"]),
        (Response(302, headers={"Location": "http://localhost:1/"}), ["HTTP status 302"]),
        (Response(200, b'{"error":"invalid_grant"}'), ["invalid_grant"]),
        (Response(200, b"<html>a login page</html>"), ["not a JSON object"]),
        (Response(200, b"[1]"), ["not a JSON object"]),
        (Response(200, b"[" * 100_000), ["not a JSON object"]),
        (Response(200, b"\xff\xfe\xff"), ["not a JSON object"]),
        (Response(200, b"{}"), ["no access_token"]),
        (Response(200, b'{"access_token":{"a":1}}'), ["no access_token"]),
        (Response(200, b'{"access_token":"a b"}'), ["not a bearer token"]),
        (Response(200, b" " * 1_100_000), ["more than 1,000,000 bytes"]),
        (
            Response(
                401, json.dumps({"error": "x\n\x1b" * 900, "error_description": SECRET}).encode()
            ),
            ["HTTP status 401", "***"],
        ),
    ],
)
def test_rejection_is_reported_and_not_retried(answer: Response, expected: list[str]) -> None:
    waits = FakeSleep()
    with ScriptedIssuer(always(answer)) as issuer:
        place = issuer.url
        text = failure(
            client_login(place.replace("localhost", "user:pw@localhost") + "?k=v"), waits
        )
    assert len(issuer.requests) == 1
    assert waits.waited == []
    assert place in text
    assert "pw@" not in text
    assert "k=v" not in text
    for words in expected:
        assert words in text


def test_issuer_that_echoes_the_request_exposes_no_secret() -> None:
    header = b64encode(f"the-client:{SECRET}".encode()).decode()
    content = {
        "error": f"got Basic {header}",
        "error_description": f"client_secret={quote_plus(SECRET)} is wrong",
    }
    with ScriptedIssuer(always(Response(401, json.dumps(content).encode()))) as issuer:
        text = failure(client_login(issuer.url))
    assert header not in text
    assert quote_plus(SECRET) not in text
    assert "got Basic ***" in text
    assert "is wrong" in text


def test_failing_issuer_is_retried() -> None:
    answers = [
        Response(503),
        Response(429),
        Response(500, b'{"error":"server_error"}'),
        granted("good"),
    ]
    waits = FakeSleep()
    with ScriptedIssuer(lambda number: answers[number - 1]) as issuer:
        assert source(client_login(issuer.url), waits).fetch().value == "good"
    assert waits.waited == [0.1, 0.2, 0.4]


def test_first_failure_is_reported_at_the_timeout() -> None:
    waits = FakeSleep()
    with ScriptedIssuer(lambda number: Response(502 if number == 1 else 503)) as issuer:
        text = failure(client_login(issuer.url, retry_backoff_max_ms=500), waits)
    assert "HTTP status 502" in text
    assert waits.waited == [0.1, 0.2, 0.2]
    assert len(issuer.requests) == 4


def test_refused_connection_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    waits = FakeSleep()
    text = failure(
        client_login(f"http://localhost:{port}/t?secret=x", retry_backoff_max_ms=300), waits
    )
    assert f"http://localhost:{port}/t cannot be reached: Connection refused" in text
    assert waits.waited == [0.1, 0.2]


def test_unknown_host_is_reported() -> None:
    text = failure(client_login("http://no-such-host.invalid/token", retry_backoff_max_ms=1))
    assert "no-such-host.invalid" in text


def test_endless_response_is_cut_off() -> None:
    """The issuer sends a byte now and then, so that no single read times out."""
    done = threading.Event()

    def trickle(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not done.wait(0.05):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        login = client_login(
            f"http://127.0.0.1:{listener.getsockname()[1]}/token",
            connect_timeout_ms=200,
            read_timeout_ms=200,
            retry_backoff_max_ms=0,
        )
        try:
            assert "no response within 0.4 s" in failure(login)
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("url", ["x?key=v", "gopher://localhost/t?key=v", "https://[::1/t?key=v"])
def test_invalid_url_is_reported(url: str) -> None:
    waits = FakeSleep()
    text = failure(client_login(url), waits)
    assert "is not a valid URL" in text
    assert "key=v" not in text
    assert waits.waited == []


def test_issuer_without_response() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        login = client_login(
            f"http://127.0.0.1:{silent.getsockname()[1]}/token",
            read_timeout_ms=200,
            retry_backoff_max_ms=0,
        )
        assert "timeout" in failure(login)


def test_http_to_an_https_port(authority: CertificateAuthority, tmp_path: Path) -> None:
    certificate = authority.server("localhost").write(tmp_path)
    with ScriptedIssuer(always(granted("good")), certificate) as issuer:
        login = client_login(issuer.url.replace("https", "http"), retry_backoff_max_ms=0)
        assert "cannot be reached" in failure(login)


def test_https_to_an_http_port() -> None:
    with ScriptedIssuer(always(granted("good"))) as issuer:
        login = client_login(issuer.url.replace("http", "https"), retry_backoff_max_ms=0)
        assert "cannot be reached: TLS: " in failure(login)


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def trusting(authority: CertificateAuthority, **settings: Any) -> TlsConfig:
    certificates = Secret(authority.certificate_pem, "kafka.ssl.truststore.certificates")
    store = TrustStore(type=StoreType.PEM, certificates=certificates)
    return TlsConfig(truststore=store, **settings)


def test_https_with_a_private_authority(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    certificate = authority.server("localhost").write(tmp_path)
    with ScriptedIssuer(always(granted("good")), certificate) as issuer:
        login = client_login(issuer.url, tls=trusting(authority))
        assert source(login).fetch().value == "good"


def test_issuers_context_is_created_once_and_separate_from_the_brokers(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """urllib3 disables the host name check in it and performs the check itself."""
    contexts: list[ssl.SSLContext] = []

    def make(config: TlsConfig) -> ssl.SSLContext:
        contexts.append(create_client_context(config))
        return contexts[-1]

    monkeypatch.setattr(issuer_https, "issuer_contexts", ContextCache(make))
    certificate = authority.server("localhost").write(tmp_path)
    tls = trusting(authority)
    with ScriptedIssuer(always(granted("good")), certificate) as issuer:
        for _ in range(3):
            assert source(client_login(issuer.url, tls=tls)).fetch().value == "good"
    assert len(contexts) == 1
    assert broker_contexts.context(tls) not in contexts


@pytest.mark.parametrize("tls", [None, "other"])
def test_issuer_with_an_unknown_authority(
    authority: CertificateAuthority,
    tmp_path: Path,
    tls: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate = authority.server("localhost").write(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    waits = FakeSleep()
    with ScriptedIssuer(always(granted("good")), certificate) as issuer:
        config = tls and trusting(CertificateAuthority())
        text = failure(client_login(issuer.url, tls=config), waits)
    assert "invalid certificate" in text
    assert "Set kafka.https.ca.location" in text
    assert issuer.requests == []
    assert waits.waited == []


def test_issuer_with_another_host_name(authority: CertificateAuthority, tmp_path: Path) -> None:
    certificate = authority.server("elsewhere.test").write(tmp_path)
    with ScriptedIssuer(always(granted("good")), certificate) as issuer:
        text = failure(client_login(issuer.url, tls=trusting(authority)))
        unchecked = trusting(authority, check_hostname=False)
        assert source(client_login(issuer.url, tls=unchecked)).fetch().value == "good"
    assert "invalid certificate" in text
    assert "localhost" in text


def test_issuer_with_an_expired_certificate(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    certificate = authority.server("localhost", validity=EXPIRED).write(tmp_path)
    with ScriptedIssuer(always(granted("good")), certificate) as issuer:
        text = failure(client_login(issuer.url, tls=trusting(authority)))
    assert "certificate has expired" in text


def test_missing_secret_is_a_config_error() -> None:
    login = client_login("http://localhost:1/", secret="env:NOT_SET_ANYWHERE")
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        source(login).fetch()


def test_a_thousand_tasks_log_in_once() -> None:
    """Each task logs in at three brokers, with four tasks at a time."""
    text = jwt(sub="a", exp=4_000_000_000)
    cache = TokenCache()

    def task(_: int) -> tuple[set[bytes], str]:
        config = SaslConfig(mechanism=Mechanism.OAUTHBEARER, login=client_login(issuer.url))
        firsts = {
            exchange_for(config, f"broker-{number}").initial_response() for number in range(3)
        }
        kept = cache.token(ClientCredentialsSource(client_login(issuer.url)), RefreshPolicy())
        return firsts, kept.value

    with ScriptedIssuer(always(granted(text))) as issuer, ThreadPoolExecutor(4) as threads:
        done = list(threads.map(task, range(1_000)))
    assert {first for firsts, _ in done for first in firsts} == {
        b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01"
    }
    assert {kept for _, kept in done} == {text}
    assert len(issuer.requests) == 2
