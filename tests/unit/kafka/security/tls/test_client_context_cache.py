"""Contexts are shared and recreated if their files change; names of cipher suites."""

import logging
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    KeyStore,
    StoreType,
    TlsConfig,
    TrustStore,
)
from spark_kafka_sink.kafka.security import changing_files
from spark_kafka_sink.kafka.security.tls.cipher_suites import (
    TLS_1_3_SUITES,
    cipher_suites,
    openssl_name,
)
from spark_kafka_sink.kafka.security.tls.client_context import create_client_context
from spark_kafka_sink.kafka.security.tls.context_cache import MAX_CACHED, ContextCache
from tests.support.handshakes import demanding_context, handshake, server_context
from tools.support.certificates import CertificateAuthority

AUTHORITY = CertificateAuthority()
NEXT = CertificateAuthority("Next")
WAIT_TIMEOUT_S = 20.0


def trusting(path: Path) -> TlsConfig:
    return TlsConfig(truststore=TrustStore(type=StoreType.PEM, location=str(path)))


def test_equal_settings_share_a_context(tmp_path: Path) -> None:
    cache, config = ContextCache(), trusting(AUTHORITY.write(tmp_path))
    assert cache.context(config) is cache.context(replace(config))
    assert cache.context(replace(config, check_hostname=False)) is not cache.context(config)


def test_settings_with_different_secrets_do_not_share_a_context(tmp_path: Path) -> None:
    cache = ContextCache()
    contexts = [
        cache.context(
            TlsConfig(
                truststore=TrustStore(
                    type=StoreType.PEM,
                    certificates=Secret(authority.certificate_pem, "truststore.certificates"),
                )
            )
        )
        for authority in (AUTHORITY, NEXT)
    ]
    assert contexts[0] is not contexts[1]


def test_system_authorities_have_a_context() -> None:
    cache = ContextCache()
    assert cache.context(TlsConfig()) is cache.context(TlsConfig())


def test_replaced_truststore_is_read_again(tmp_path: Path) -> None:
    cache, config = ContextCache(), trusting(AUTHORITY.write(tmp_path))
    server = server_context(tmp_path, NEXT.server("localhost"))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(cache.context(config), server, "localhost")
    NEXT.write(tmp_path)
    handshake(cache.context(config), server, "localhost")


def test_renewed_client_certificate_is_used_by_the_next_connection(tmp_path: Path) -> None:
    cache = ContextCache()
    path = AUTHORITY.client("alice").write(tmp_path, "client")
    config = replace(
        trusting(AUTHORITY.write(tmp_path)),
        keystore=KeyStore(type=StoreType.PEM, location=str(path)),
    )
    server = demanding_context(tmp_path, AUTHORITY.server("localhost"), NEXT)
    cache.context(config)
    renewed = NEXT.client("alice").write(tmp_path, "renewed")
    renewed.replace(path)
    handshake(cache.context(config), server, "localhost")


def test_secret_in_a_file_is_read_again(tmp_path: Path) -> None:
    cache, path = ContextCache(), AUTHORITY.write(tmp_path)
    certificates = Secret(f"file:{path}", "kafka.ssl.truststore.certificates")
    config = TlsConfig(truststore=TrustStore(type=StoreType.PEM, certificates=certificates))
    first = cache.context(config)
    assert cache.context(config) is first
    NEXT.write(tmp_path)
    assert cache.context(config) is not first


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("half a fi", "contains no certificate"),
        ("-----BEGIN CERTIFICATE-----\nMIIé\n-----END CERTIFICATE-----", "not ASCII"),
        ("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", "is empty"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "not enough data"),
    ],
)
def test_unreadable_files_keep_the_last_context(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str, words: str
) -> None:
    cache, path = ContextCache(), AUTHORITY.write(tmp_path)
    config = trusting(path)
    first = cache.context(config)
    path.write_text(damage)
    with caplog.at_level(logging.WARNING):
        assert cache.context(config) is first
        assert cache.context(config) is first
    assert len(caplog.records) == 1
    assert words in caplog.text
    NEXT.write(tmp_path)
    assert cache.context(config) is not first


def test_any_failure_keeps_the_last_context_and_logs_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)]

    def make(config: TlsConfig) -> ssl.SSLContext:
        if not contexts:
            raise LookupError("hunter2")
        return contexts.pop()

    cache, path = ContextCache(make), AUTHORITY.write(tmp_path)
    first = cache.context(trusting(path))
    NEXT.write(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert cache.context(trusting(path)) is first
    assert "LookupError" in caplog.text
    assert "hunter2" not in caplog.text
    with pytest.raises(LookupError):
        cache.context(trusting(tmp_path / "other.pem"))


def renewed_while_making(files: dict[Path, str]) -> ContextCache:
    """Create a cache whose first read finds the current files, and later ones the given texts."""

    def make(config: TlsConfig) -> ssl.SSLContext:
        try:
            return create_client_context(config)
        finally:
            for path, text in files.items():
                path.write_text(text)

    return ContextCache(make, settling=WAIT_TIMEOUT_S)


def test_new_process_waits_for_the_key_of_a_new_certificate(tmp_path: Path) -> None:
    old, new = AUTHORITY.client("alice"), AUTHORITY.client("alice")
    chain, key = tmp_path / "live.crt", tmp_path / "live.key"
    chain.write_text(new.certificate_pem)
    key.write_text(old.key_pem())
    config = replace(
        trusting(AUTHORITY.write(tmp_path)),
        keystore=KeyStore(
            type=StoreType.PEM,
            certificate_chain=Secret(f"file:{chain}", "kafka.ssl.keystore.certificate.chain"),
            key=Secret(f"file:{key}", "kafka.ssl.keystore.key"),
        ),
    )
    with pytest.raises(ConfigError):
        ContextCache(settling=0.2).context(config)
    renewed_while_making({key: new.key_pem()}).context(config)


def test_temporarily_empty_store_is_read_after_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "live.pem"
    path.touch()
    renewed_while_making({path: AUTHORITY.certificate_pem}).context(trusting(path))


def test_old_empty_store_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "live.pem"
    path.touch()
    monkeypatch.setattr(changing_files, "RECENT_CHANGE_S", 0.0)
    with pytest.raises(ConfigError):
        ContextCache(settling=3_600).context(trusting(path))


def test_least_recently_used_contexts_are_dropped(tmp_path: Path) -> None:
    created: list[TlsConfig] = []

    def make(config: TlsConfig) -> ssl.SSLContext:
        created.append(config)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    cache = ContextCache(make)
    used, *others = [trusting(tmp_path / f"{n}.pem") for n in range(2 * MAX_CACHED)]
    for config in others:
        cache.context(used)
        cache.context(config)
    assert created == [used, *others]
    cache.context(others[0])
    assert created[-1] == others[0]


def test_thread_without_a_context_does_not_wait_forever(tmp_path: Path) -> None:
    begun, released = Event(), Event()

    def make(config: TlsConfig) -> ssl.SSLContext:
        begun.set()
        assert released.wait(WAIT_TIMEOUT_S)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    cache, config = ContextCache(make, first_wait_s=0.05), trusting(AUTHORITY.write(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.context, config)
        assert begun.wait(WAIT_TIMEOUT_S)
        with pytest.raises(TimeoutError, match="does their file system respond"):
            cache.context(config)
        released.set()
        assert slow.result(WAIT_TIMEOUT_S) is cache.context(config)


class BlockingFactory:
    """Creates the first context immediately and the second one after a release."""

    def __init__(self) -> None:
        self.begun, self.released = Event(), Event()
        self._made: list[TlsConfig] = []

    def __call__(self, config: TlsConfig) -> ssl.SSLContext:
        if config in self._made:
            self.begun.set()
            assert self.released.wait(WAIT_TIMEOUT_S)
        self._made.append(config)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def hanging() -> Iterator[BlockingFactory]:
    factory = BlockingFactory()
    yield factory
    factory.released.set()


def test_hanging_files_block_one_thread(tmp_path: Path, hanging: BlockingFactory) -> None:
    """Other threads use the last context, and other settings are not affected."""
    cache, config = ContextCache(hanging, wait_s=0.05), trusting(AUTHORITY.write(tmp_path))
    first = cache.context(config)
    NEXT.write(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.context, config)
        assert hanging.begun.wait(WAIT_TIMEOUT_S)
        assert cache.context(config) is first
        assert cache.context(trusting(tmp_path / "other.pem")) is not first
        hanging.released.set()
        assert slow.result(WAIT_TIMEOUT_S) is not first
    assert cache.context(config) is slow.result()


def test_concurrent_caller_gets_the_new_context(tmp_path: Path, hanging: BlockingFactory) -> None:
    cache, config = ContextCache(hanging, WAIT_TIMEOUT_S), trusting(AUTHORITY.write(tmp_path))
    cache.context(config)
    NEXT.write(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(cache.context, config) for _ in range(2)]
        assert hanging.begun.wait(WAIT_TIMEOUT_S)
        hanging.released.set()
        assert both[0].result(WAIT_TIMEOUT_S) is both[1].result(WAIT_TIMEOUT_S)


def openssl_suites() -> dict[str, str]:
    """Return IANA and openssl names of all suites that use certificates."""
    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "-v", "aRSA:aECDSA:!PSK:!kSRP:!ARIA"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return {row[0]: row[2] for row in rows}


def test_every_suite_with_certificates_has_openssls_name() -> None:
    known = openssl_suites()
    assert len(known) > 20
    assert {name: openssl_name(name) for name in known} == known


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_old_java_names_and_openssl_names(name: str, expected: str) -> None:
    assert openssl_name(name) == expected


def test_suites_are_sorted_by_version() -> None:
    suites = cipher_suites(["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_128_GCM_SHA256"])
    assert suites.tls_1_2 == ("AES128-SHA",)
    assert suites.tls_1_3 == {"TLS_AES_128_GCM_SHA256"} < TLS_1_3_SUITES
