"""Stores of keytool and openssl, and private keys in every format, verified by handshakes."""

import hashlib
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    ClientCredentialsLogin,
    KeyStore,
    StoreType,
    TlsConfig,
    TrustStore,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.security.tls.client_context import create_client_context
from spark_kafka_sink.kafka.security.tls.jks import JksKey
from spark_kafka_sink.kafka.security.tls.pem import encrypt_private_key, pem_blocks, private_key
from spark_kafka_sink.kafka.security.tls.store_formats import jks_private_key
from spark_kafka_sink.kafka.security.tls.stores import client_identity, trusted_certificates
from tests.support.handshakes import demanding_context, handshake
from tests.support.keytool import openssl
from tests.unit.kafka.security.tls.conftest import KEY_PASSWORD, STORE_PASSWORD, Stores

TRUST = [
    "trust.jks",
    "trust.p12",
    "trust-legacy.p12",
    "trust-unprotected.p12",
    "trust-openssl.p12",
    "trust-rc2.p12",
]

OPTION = "kafka.ssl.keystore.key"
PASSWORD = "a pass: phrase"
EC = ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
RSA = ("genpkey", "-algorithm", "RSA")
ENCRYPTED = {
    "PBES2 AES-256": ("-v2", "aes-256-cbc"),
    "PBES2 AES-128, SHA-512": ("-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA512"),
    "PBES2 3DES": ("-v2", "des3"),
    "PBES2 scrypt": ("-scrypt",),
    "PBES1 3DES": ("-v1", "PBE-SHA1-3DES"),
    "PBES1 MD5 DES": ("-v1", "PBE-MD5-DES", "-provider", "legacy", "-provider", "default"),
}


def secret(value: str | None, option: str) -> Secret | None:
    return Secret(value, f"kafka.ssl.{option}.password") if value is not None else None


def trust(path: str, password: str | None, kind: StoreType = StoreType.JKS) -> TrustStore:
    return TrustStore(type=kind, location=path, password=secret(password, "truststore"))


def keys(path: str, password: str | None, key_password: str | None = None) -> KeyStore:
    return KeyStore(
        type=StoreType.JKS,
        location=path,
        password=secret(password, "keystore"),
        key_password=secret(key_password, "key"),
    )


@pytest.mark.deep
@pytest.mark.parametrize("name", TRUST)
@pytest.mark.parametrize("declared", [StoreType.JKS, StoreType.PKCS12])
def test_truststores_contain_every_authority(
    stores: Stores, name: str, declared: StoreType
) -> None:
    """With either declared type, as with Java's keystore.type.compat."""
    certificates = trusted_certificates(trust(stores.path(name), STORE_PASSWORD, declared))
    assert sorted(map(ssl.DER_cert_to_PEM_cert, certificates)) == sorted(
        [stores.authority.certificate_pem, stores.other.certificate_pem]
    )


@pytest.mark.parametrize("name", ["trust.jks", "trust-unprotected.p12"])
def test_stores_that_java_opens_without_password(stores: Stores, name: str) -> None:
    assert len(trusted_certificates(trust(stores.path(name), None))) == 2


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("trust.jks", "hunter2", "JKS store"),
        ("trust.p12", "hunter2", "PKCS12 store"),
        ("trust.p12", None, "needs a password"),
    ],
)
def test_wrong_password_names_its_option(
    stores: Stores, name: str, password: str | None, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        trusted_certificates(trust(stores.path(name), password))
    assert "kafka.ssl.truststore.password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "key_password"),
    [("client.jks", KEY_PASSWORD), ("client.p12", None), ("client-openssl.p12", None)],
)
def test_chain_and_key_of_a_keystore_are_accepted(
    stores: Stores, tmp_path: Path, name: str, key_password: str | None
) -> None:
    """The server knows only the root: the issuing authority's certificate must be sent too."""
    config = TlsConfig(
        truststore=trust(stores.path("trust.p12"), STORE_PASSWORD),
        keystore=keys(stores.path(name), STORE_PASSWORD, key_password),
    )
    server = demanding_context(tmp_path, stores.server, stores.authority)
    handshake(create_client_context(config), server, "localhost")


@pytest.mark.parametrize(
    ("password", "key_password", "words"),
    [
        ("wrong", KEY_PASSWORD, r"opened.*kafka\.ssl\.keystore\.password"),
        (STORE_PASSWORD, "wrong", r"with kafka\.ssl\.key\.password"),
        (STORE_PASSWORD, None, r"with kafka\.ssl\.keystore\.password"),
        (None, None, "no password"),
    ],
)
def test_wrong_passwords_of_a_jks_keystore(
    stores: Stores, password: str | None, key_password: str | None, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        client_identity(keys(stores.path("client.jks"), password, key_password))


def test_wrong_password_of_a_pkcs12_keystore(stores: Stores) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.keystore\.password") as caught:
        client_identity(keys(stores.path("client.p12"), "wrong"))
    assert "A key with a password other than the store's is not supported" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        trusted_certificates(trust(stores.path("trust.p12"), "wrong"))
    assert "A key" not in str(caught.value)


@pytest.mark.parametrize("name", ["trust.jks", "trust.p12"])
def test_truststore_is_not_a_keystore(stores: Stores, name: str) -> None:
    with pytest.raises(ConfigError, match="no private key"):
        client_identity(keys(stores.path(name), STORE_PASSWORD))


def test_certificate_of_a_key_in_a_truststore_is_trusted(stores: Stores) -> None:
    """As in Java: with one store for both uses, a broker may send that very certificate."""
    certificates = trusted_certificates(trust(stores.path("client.jks"), STORE_PASSWORD))
    assert [ssl.DER_cert_to_PEM_cert(data) for data in certificates] == [
        stores.client.certificate_pem
    ]


@pytest.mark.parametrize(
    ("name", "declared", "words"),
    [
        ("trust.p12", StoreType.PEM, "type=PKCS12"),
        ("trust.jks", StoreType.PEM, "type=JKS"),
        ("first.pem", StoreType.JKS, "type=PEM"),
        ("client.jceks", StoreType.JKS, "JCEKS"),
    ],
)
def test_file_of_another_type_is_reported(
    stores: Stores, name: str, declared: StoreType, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        trusted_certificates(trust(stores.path(name), STORE_PASSWORD, declared))


@pytest.mark.parametrize("declared", StoreType)
@pytest.mark.parametrize("start", ["308203093082", "308204bd020100", "3045300a", "30803080"])
def test_certificate_or_key_in_der_is_reported(
    tmp_path: Path, start: str, declared: StoreType
) -> None:
    file = tmp_path / "ca.cer"
    file.write_bytes(bytes.fromhex(start) + bytes(100))
    with pytest.raises(ConfigError, match=r"-inform der, and set .*truststore\.type=PEM"):
        trusted_certificates(trust(str(file), STORE_PASSWORD, declared))


def test_pem_after_other_text(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("0 s:CN=kafka\n-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n")
    assert trusted_certificates(trust(str(file), None, StoreType.PEM)) == [b"a"]


@pytest.mark.parametrize("name", ["trust.jks", "client.jks", "trust.p12", "client.p12"])
def test_damaged_files_raise_config_errors(stores: Stores, tmp_path: Path, name: str) -> None:
    content = Path(stores.path(name)).read_bytes()
    damaged = tmp_path / name
    for end in range(8, len(content), 37):
        damaged.write_bytes(content[:end])
        with pytest.raises(ConfigError):
            trusted_certificates(trust(str(damaged), STORE_PASSWORD))
        with pytest.raises(ConfigError):
            client_identity(keys(str(damaged), STORE_PASSWORD, KEY_PASSWORD))


def test_truncated_jks_without_password_is_reported(stores: Stores, tmp_path: Path) -> None:
    damaged = tmp_path / "cut.jks"
    damaged.write_bytes(Path(stores.path("trust.jks")).read_bytes()[:200])
    with pytest.raises(ConfigError, match="damaged"):
        trusted_certificates(trust(str(damaged), None))


@pytest.mark.parametrize("name", ["client.jks", "client.p12"])
def test_store_password_that_is_not_utf_8_names_its_option(stores: Stores, name: str) -> None:
    with pytest.raises(ConfigError, match=r"keystore\.password .*UTF-8") as caught:
        client_identity(keys(stores.path(name), "hunter2\udcff"))
    assert caught.value.__cause__ is None


def test_key_password_that_is_not_utf_8(stores: Stores) -> None:
    with pytest.raises(ConfigError):
        client_identity(keys(stores.path("client.jks"), STORE_PASSWORD, "hunter2\udcff"))


def test_jks_key_of_an_unknown_type_is_reported() -> None:
    algorithm = bytes.fromhex("300506032a0304")  # OBJECT IDENTIFIER 1.2.3.4
    content = b"\x02\x01\x00" + algorithm + b"\x04\x01\x00"
    key = protected_key(b"\x30" + bytes([len(content)]) + content, KEY_PASSWORD)
    with pytest.raises(ConfigError, match="unsupported type"):
        jks_private_key(key, secret(KEY_PASSWORD, "key"), "kafka.ssl.keystore.location")


@pytest.mark.parametrize("prefix", ["", "oauth."])
def test_errors_name_the_options_of_the_login(stores: Stores, prefix: str) -> None:
    """The TLS options for the issuer are in sasl.jaas.config."""
    oauthbearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = "kafka.sasl.jaas.config"
    files = {
        "truststore.location": "/nowhere.jks",
        "keystore.location": stores.path("client.jks"),
        "keystore.password": STORE_PASSWORD,
        "key.password": "wrong",
    }
    tls = " ".join(f'{prefix}ssl.{name}="{value}"' for name, value in files.items())
    options = {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        jaas: f'{oauthbearer} required clientId="a" clientSecret="b" {tls};',
    }
    sasl = ProducerConfig.parse(options).security.sasl
    assert sasl is not None
    assert isinstance(sasl.login, ClientCredentialsLogin)
    config = sasl.login.tls
    assert config is not None
    assert config.truststore is not None
    assert config.keystore is not None
    with pytest.raises(ConfigError, match=rf"option {prefix}ssl\.truststore\.location in {jaas} "):
        trusted_certificates(config.truststore)
    with pytest.raises(ConfigError, match=rf": set {prefix}ssl\.key\.password in {jaas}\."):
        client_identity(config.keystore)


def test_invalid_path_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.truststore\.location"):
        trusted_certificates(trust("/a\0b", None))


def protected_key(plain: bytes, password: str) -> JksKey:
    """Create an entry with this key, encrypted like Java's KeyProtector."""
    salt, secret_bytes = bytes(20), password.encode("utf-16-be")
    stream, digest = b"", salt
    while len(stream) < len(plain):
        digest = hashlib.sha1(secret_bytes + digest).digest()
        stream += digest
    cipher = bytes(left ^ right for left, right in zip(plain, stream, strict=False))
    octets = salt + cipher + hashlib.sha1(secret_bytes + plain).digest()
    identifier = bytes.fromhex("300e060a2b060104012a021101010500")
    info = identifier + b"\x04" + bytes([len(octets)]) + octets
    return JksKey("odd", b"\x30" + bytes([len(info)]) + info, ())


@pytest.fixture(scope="module")
def plain_keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("keys")
    for kind, line in {"EC": EC, "RSA": RSA}.items():
        openssl(*line, "-out", str(folder / kind))
    return {kind: folder / kind for kind in ("EC", "RSA")}


def read(text: str, password: str | None = None) -> PrivateKeyTypes:
    block = next(block for block in pem_blocks(text, OPTION) if block.is_private_key)
    secret = Secret(password, "kafka.ssl.key.password") if password is not None else None
    return private_key(block, secret, OPTION)


def numbers(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.mark.parametrize("kind", ["EC", "RSA"])
@pytest.mark.parametrize("form", ["-traditional", None])
@pytest.mark.parametrize("password", [None, "not needed"])
def test_unencrypted_keys_are_read(
    plain_keys: dict[str, Path], tmp_path: Path, kind: str, form: str | None, password: str | None
) -> None:
    written = tmp_path / "key.pem"
    forms = () if form is None else (form,)
    openssl("pkey", *forms, "-in", str(plain_keys[kind]), "-out", str(written))
    key = read(written.read_text(), password)
    assert numbers(key) == numbers(read(plain_keys[kind].read_text()))


@pytest.mark.parametrize("kind", ["EC", "RSA"])
@pytest.mark.parametrize("form", ENCRYPTED)
def test_encrypted_keys_are_read_with_their_password(
    plain_keys: dict[str, Path], tmp_path: Path, kind: str, form: str
) -> None:
    written = tmp_path / "key.pem"
    openssl(
        *("pkcs8", "-topk8", *ENCRYPTED[form], "-in", str(plain_keys[kind])),
        *("-out", str(written), "-passout", f"pass:{PASSWORD}"),
    )
    text = written.read_text()
    expected = numbers(read(plain_keys[kind].read_text()))
    for shape in (text, text.replace("\n", " "), text.replace("\n", "\\n"), f"# mine\n{text}"):
        assert numbers(read(shape, PASSWORD)) == expected
    with pytest.raises(ConfigError, match="decrypted") as caught:
        read(text, "hunter2")
    assert "hunter2" not in f"{caught.value!r} {caught.value}"
    with pytest.raises(ConfigError, match=r"Set kafka\.ssl\.key\.password"):
        read(text)


@pytest.mark.parametrize("cipher", ["-aes256", "-des3"])
def test_keys_encrypted_as_in_rfc_1421(
    plain_keys: dict[str, Path], tmp_path: Path, cipher: str
) -> None:
    written = tmp_path / "key.pem"
    openssl(
        *("rsa", "-traditional", cipher, "-in", str(plain_keys["RSA"]), "-out", str(written)),
        *("-passout", f"pass:{PASSWORD}"),
    )
    text = written.read_text()
    assert "Proc-Type" in text
    for shape in (text, text.replace("\n", "\r\n"), text.replace("\n", "\\n")):
        assert numbers(read(shape, PASSWORD)) == numbers(read(plain_keys["RSA"].read_text()))
    with pytest.raises(ConfigError):
        read(text)


def test_key_after_a_block_of_parameters(tmp_path: Path) -> None:
    written = tmp_path / "key.pem"
    openssl("ecparam", "-genkey", "-name", "prime256v1", "-out", str(written))
    assert "BEGIN EC PARAMETERS" in written.read_text()
    read(written.read_text())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "cannot be read"),
        ("-----BEGIN PRIVATE KEY-----\n*\n-----END PRIVATE KEY-----", "is not base64"),
        ("-----BEGIN PRIVATE KEY-----\nAAAé\n-----END PRIVATE KEY-----", "not ASCII"),
        ("-----BEGIN PRIVATE KEY-----\nAbc: é\nAAAA\n-----END PRIVATE KEY-----", "not ASCII"),
        ("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----", "is empty"),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
            "cannot be read",
        ),
    ],
)
def test_invalid_key_is_described(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(text)


def test_sealed_key_opens_only_with_its_own_passphrase(plain_keys: dict[str, Path]) -> None:
    key = read(plain_keys["EC"].read_text())
    text, passphrase = encrypt_private_key(key)
    assert text.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert numbers(read(text.decode(), passphrase)) == numbers(key)
    assert encrypt_private_key(key)[1] != passphrase


def test_password_that_is_not_utf_8_is_not_shown(plain_keys: dict[str, Path]) -> None:
    text = encrypt_private_key(read(plain_keys["EC"].read_text()))[0].decode()
    with pytest.raises(ConfigError) as caught:
        read(text, "hunter2\udcff")
    assert caught.value.__cause__ is None
