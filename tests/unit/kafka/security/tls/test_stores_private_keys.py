"""Private keys in every format that openssl writes."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.kafka.security.tls.stores import pem_blocks, private_key, sealed
from tests.support.keytool import openssl

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
def test_unencrypted_keys(
    plain_keys: dict[str, Path], tmp_path: Path, kind: str, form: str | None, password: str | None
) -> None:
    written = tmp_path / "key.pem"
    forms = () if form is None else (form,)
    openssl("pkey", *forms, "-in", str(plain_keys[kind]), "-out", str(written))
    key = read(written.read_text(), password)
    assert numbers(key) == numbers(read(plain_keys[kind].read_text()))


@pytest.mark.parametrize("kind", ["EC", "RSA"])
@pytest.mark.parametrize("form", ENCRYPTED)
def test_encrypted_keys(plain_keys: dict[str, Path], tmp_path: Path, kind: str, form: str) -> None:
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
    text, passphrase = sealed(key)
    assert text.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert numbers(read(text.decode(), passphrase)) == numbers(key)
    assert sealed(key)[1] != passphrase


def test_password_that_is_not_utf_8_is_not_shown(plain_keys: dict[str, Path]) -> None:
    text = sealed(read(plain_keys["EC"].read_text()))[0].decode()
    with pytest.raises(ConfigError) as caught:
        read(text, "hunter2\udcff")
    assert caught.value.__cause__ is None
