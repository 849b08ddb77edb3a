"""Read key stores and trust stores: PEM, JKS and PKCS12.

Format: Java's JKS implementation also reads PKCS12 and vice versa (keystore.type.compat), and
Kafka's default type is JKS, so PKCS12 files are often configured without their type. As in Java,
the format is detected from the bytes of the file; only PEM must be declared.

PEM: read as Kafka's clients do (RFC 7468; DefaultSslEngineFactory.PemStore). In an option's value
the line breaks may be spaces, or a backslash and an n, as left by a properties file or a shell.

JKS: Java's own format (sun.security.provider.JavaKeyStore), versions 1 and 2.

    magic, version, count                          int32 each, big-endian
    count times: tag, alias, date                  int32, UTF with a length of 2 bytes, int64
      tag 1, a key:  length, EncryptedPrivateKeyInfo, number of certificates, certificates
      tag 2:         certificate                   [type as UTF, version 2], length, DER
    SHA-1 of password, "Mighty Aphrodite" and all preceding bytes

The password is encoded as UTF-16, big-endian. A key is encrypted with Sun's own cipher, a stream of
SHA-1 digests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import socket
import ssl
import struct
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.text import shown_file
from spark_kafka_sink.config.security.model import KeyStore, StoreType, TrustStore
from spark_kafka_sink.security.credentials import utf8_text

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.model import TlsConfig


_JCEKS = b"\xce\xce\xce\xce"
_SEQUENCE = 0x30


def store_format(content: bytes, declared: StoreType, option: str) -> StoreType:
    """Return the format of a store.

    Args:
        content: the file's bytes.
        declared: the type given by the options, or Java's default.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the file is PEM and not declared as PEM, or the reverse, or in another format.
    """
    found = _recognised(content)
    type_option = option.replace(".location", ".type")
    if content.startswith(_JCEKS):
        raise ConfigError(
            f"option {option} names a key store of the format JCEKS, which is not supported",
            hint="Convert it with keytool -importkeystore -deststoretype pkcs12.",
        )
    if declared is StoreType.PEM:
        if found is None:
            return StoreType.PEM
        raise ConfigError(
            f"option {option} names a {found.value} file, and {type_option} says PEM",
            hint=f"Set {type_option}={found.value}.",
        )
    if found is not None:
        return found
    looks_pem = b"-----BEGIN " in content
    raise ConfigError(
        f"option {option} names a file that is neither JKS nor PKCS12",
        hint=f"It is PEM: set {type_option}=PEM." if looks_pem else None,
    )


def _recognised(content: bytes) -> StoreType | None:
    if content.startswith(MAGIC):
        return StoreType.JKS
    if content[:1] == bytes([_SEQUENCE]):
        return StoreType.PKCS12
    return None


_BLOCK = re.compile(
    r"-----BEGIN ([A-Z0-9 ]+?)-----(.*?)-----END \1-----",
    re.DOTALL,
)
_HEADER = re.compile(r"^\s*[A-Za-z-]+:[^\n]*\n", re.MULTILINE)
_LINE = 64


@dataclass(frozen=True, slots=True)
class PemBlock:
    """One PEM block, from BEGIN to END.

    Args:
        label: such as CERTIFICATE or ENCRYPTED PRIVATE KEY.
        headers: headers of RFC 1421, such as `Proc-Type: 4,ENCRYPTED`; empty for newer formats.
        data: the decoded bytes.
    """

    label: str
    headers: str
    data: bytes = field(repr=False)

    @property
    def is_certificate(self) -> bool:
        """Whether the block is an X.509 certificate."""
        return self.label in {"CERTIFICATE", "X509 CERTIFICATE"}

    @property
    def is_private_key(self) -> bool:
        """Whether the block is a private key of any kind, encrypted or not."""
        return self.label.endswith("PRIVATE KEY")

    def text(self) -> bytes:
        """Return the block as PEM, with the line breaks that OpenSSL requires."""
        body = base64.b64encode(self.data).decode("ascii")
        lines = [body[start : start + _LINE] for start in range(0, len(body), _LINE)]
        headers = f"{self.headers}\n" if self.headers else ""
        joined = "\n".join(lines)
        return (
            f"-----BEGIN {self.label}-----\n{headers}{joined}\n-----END {self.label}-----\n"
        ).encode("ascii")


def pem_blocks(text: str, option: str) -> list[PemBlock]:
    """Return all blocks of a text in their order; text between them is ignored.

    Raises:
        ConfigError: a block is empty or not base64.
    """
    spread = text.replace("\\n", "\n").replace("\\r", "").replace("\r", "")
    return [_block(match[1], match[2], option) for match in _BLOCK.finditer(spread)]


def _block(label: str, body: str, option: str) -> PemBlock:
    headers = "".join(f"{match[0].strip()}\n" for match in _HEADER.finditer(body))
    encoded = "".join(_HEADER.sub("", body).split())
    if not (headers.isascii() and encoded.isascii()):
        raise _damaged(label, option, "has characters that are not ASCII")
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise _damaged(label, option, "is not base64") from error
    if not data:
        raise _damaged(label, option, "is empty")
    return PemBlock(label, headers, data)


def _damaged(label: str, option: str, how: str) -> ConfigError:
    return ConfigError(
        f"option {option} holds a PEM block {label} that {how}",
        hint="Give the file's text unchanged; line breaks may be spaces.",
    )


MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _CERTIFICATE = 1, 2
_DIGEST_SIZE = 20
_WHITENER = b"Mighty Aphrodite"
_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1 in DER."""


class JksFormatError(ValueError):
    """The bytes are not a key store in this format."""


class JksPasswordError(ValueError):
    """The password of the store or of a key is wrong."""


@dataclass(frozen=True, slots=True)
class JksKey:
    """The entry of a private key: the encrypted key, and its certificate chain."""

    alias: str
    encrypted: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)

    def decrypt(self, password: str) -> bytes:
        """Return the key as PKCS#8 in DER.

        Raises:
            JksPasswordError: the password is wrong.
            JksFormatError: the key is encrypted with another algorithm.
        """
        protected = _octets_after(self.encrypted, _KEY_PROTECTOR)
        salt = protected[:_DIGEST_SIZE]
        cipher = protected[_DIGEST_SIZE:-_DIGEST_SIZE]
        secret = _as_java(password)
        plain = _xor(cipher, _key_stream(secret, salt, len(cipher)))
        if not hmac.compare_digest(_sha1(secret + plain), protected[-_DIGEST_SIZE:]):
            raise JksPasswordError
        return plain


@dataclass(frozen=True, slots=True)
class JksStore:
    """The content of a key store, in the order of the file."""

    keys: tuple[JksKey, ...]
    certificates: tuple[bytes, ...]


def read_jks(content: bytes, password: str | None) -> JksStore:
    """Read a JKS key store.

    Args:
        content: the whole file.
        password: password of the store; None to skip the integrity check, as Java does.

    Raises:
        JksPasswordError: the password is wrong, or the file was modified.
        JksFormatError: the file has another format, or is truncated.
    """
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    reader = _Reader(body)
    if reader.take(4) != MAGIC or (version := reader.int32()) not in {1, 2}:
        raise JksFormatError
    if password is not None:
        expected = _sha1(_as_java(password) + _WHITENER + body)
        if not hmac.compare_digest(expected, digest):
            raise JksPasswordError
    keys: list[JksKey] = []
    certificates: list[bytes] = []
    for _ in range(reader.int32()):
        tag, alias, _date = reader.int32(), reader.text(), reader.take(8)
        if tag == _KEY:
            encrypted = reader.block()
            chain = tuple(reader.certificate(version) for _ in range(reader.int32()))
            keys.append(JksKey(alias, encrypted, chain))
        elif tag == _CERTIFICATE:
            certificates.append(reader.certificate(version))
        else:
            raise JksFormatError
    return JksStore(tuple(keys), tuple(certificates))


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._rest = BytesIO(body)

    def take(self, size: int) -> bytes:
        taken = self._rest.read(size) if size >= 0 else b""
        if len(taken) != size:
            raise JksFormatError
        return taken

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def block(self) -> bytes:
        return self.take(self.int32())

    def text(self) -> str:
        return self.take(struct.unpack(">H", self.take(2))[0]).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.text()
        return self.block()


def _octets_after(der: bytes, algorithm: bytes) -> bytes:
    """Return the octets of SEQUENCE { SEQUENCE { algorithm, … }, OCTET STRING }."""
    info, _ = _element(der, 0x30)
    identifier, rest = _element(info, 0x30)
    if not identifier.startswith(algorithm):
        raise JksFormatError
    octets, _ = _element(rest, 0x04)
    if len(octets) < 2 * _DIGEST_SIZE:
        raise JksFormatError
    return octets


def _element(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the first DER element, and the bytes after it."""
    if len(der) < 2 or der[0] != tag:
        raise JksFormatError
    start, size = 2, der[1]
    if size >= 0x80:
        start += size - 0x80
        size = int.from_bytes(der[2:start], "big")
    if start + size > len(der):
        raise JksFormatError
    return der[start : start + size], der[start + size :]


def _key_stream(secret: bytes, salt: bytes, size: int) -> bytes:
    stream, digest = bytearray(), salt
    while len(stream) < size:
        digest = _sha1(secret + digest)
        stream += digest
    return bytes(stream[:size])


def _xor(left: bytes, right: bytes) -> bytes:
    number = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
    return number.to_bytes(len(left), "big")


def _as_java(password: str) -> bytes:
    return password.encode("utf-16-be")


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


_OWN_KEY_HINT = (
    " A key whose password differs from the store's can't be read; keytool does not write such a "
    "store: have it written anew."
)


def read_pkcs12(content: bytes, password: Secret | None, option: str) -> PKCS12KeyAndCertificates:
    """Read a PKCS12 store.

    Args:
        content: the whole file.
        password: password of the store and its key, which have the same one in PKCS12.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is missing or wrong, or the file cannot be read.
    """
    secret = utf8_text(password).encode() if password is not None else None
    password_option = option.replace(".location", ".password")
    try:
        return pkcs12.load_pkcs12(content, secret)
    except UnsupportedAlgorithm as error:
        raise ConfigError(
            f"the PKCS12 store of option {option} is encrypted in a way that can't be read: "
            f"{error}",
            hint="Write it anew with keytool -importkeystore of Java 17 or newer.",
        ) from error
    except ValueError as error:
        problem = "can't be opened without a password" if password is None else "does not open"
        raise ConfigError(
            f"the PKCS12 store of option {option} {problem}",
            hint=f"Look at {password_option}: it must open the store and the key in it."
            + (_OWN_KEY_HINT if option == KEYSTORE_LOCATION else ""),
        ) from error


def all_certificates(store: PKCS12KeyAndCertificates) -> list[bytes]:
    """Return every certificate of a store as DER."""
    own = [store.cert.certificate] if store.cert else []
    others = [entry.certificate for entry in store.additional_certs]
    return [_der(certificate) for certificate in own + others]


def certificate_chain(store: PKCS12KeyAndCertificates) -> tuple[bytes, ...]:
    """Return the key's certificate and its issuers, each after the one that it signed.

    A store may contain certificates in any order, including some unrelated to the key.
    """
    if store.cert is None:
        return ()
    chain = [store.cert.certificate]
    rest = [entry.certificate for entry in store.additional_certs]
    while issuer := _issuer(chain[-1], rest):
        chain.append(issuer)
        rest.remove(issuer)
    return tuple(_der(certificate) for certificate in chain)


def _issuer(
    certificate: x509.Certificate, others: list[x509.Certificate]
) -> x509.Certificate | None:
    if certificate.issuer == certificate.subject:
        return None
    return next((other for other in others if other.subject == certificate.issuer), None)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def opened_jks(content: bytes, password: Secret | None, option: str) -> JksStore:
    """Read a JKS store.

    Args:
        content: the whole file.
        password: password of the store; None to skip the integrity check, as Java does.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is wrong, or the file is damaged.
    """
    try:
        return read_jks(content, utf8_text(password) if password is not None else None)
    except JksPasswordError as error:
        raise ConfigError(
            f"the JKS store of option {option} does not open",
            hint=f"{option.replace('.location', '.password')} is wrong, or the file is damaged.",
        ) from error
    except JksFormatError as error:
        raise ConfigError(
            f"the JKS store of option {option} is damaged: it ends too early",
            hint="Copy it anew, as a binary file.",
        ) from error


def jks_private_key(key: JksKey, password: Secret | None, option: str) -> PrivateKeyTypes:
    """Return the private key of an entry.

    Args:
        key: the entry.
        password: password of the key, which is the store's if the key has none of its own.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is missing or wrong, or the key cannot be read.
    """
    if password is None:
        raise ConfigError(
            f"the private key in option {option} is encrypted, and there is no password for it",
            hint="Set kafka.ssl.keystore.password, or kafka.ssl.key.password if the key's differs.",
        )
    try:
        return serialization.load_der_private_key(key.decrypt(utf8_text(password)), None)
    except JksPasswordError as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} does not open with "
            f"{password.option}",
            hint="The password is wrong, or not the key's: set kafka.ssl.key.password to its own.",
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} is of a kind that can't be read",
            hint="Convert the store with keytool -importkeystore -deststoretype pkcs12.",
        ) from error


TRUSTSTORE_LOCATION = "kafka.ssl.truststore.location"
KEYSTORE_LOCATION = "kafka.ssl.keystore.location"


def files_of(config: TlsConfig) -> tuple[str, ...]:
    """Return all files of a context, including those with secrets and the system's authorities."""
    trust, keys = config.truststore, config.keystore
    system = ssl.get_default_verify_paths().cafile if trust is None else None
    named = [system, *(store.location for store in (trust, keys) if store is not None)]
    secrets = [*secrets_of(trust), *secrets_of(keys)]
    return tuple(path for path in (*named, *(secret.file for secret in secrets)) if path)


def secrets_of(store: TrustStore | KeyStore | None) -> tuple[Secret, ...]:
    """Return the secrets of a store that are set."""
    found: tuple[Secret | None, ...] = ()
    if isinstance(store, TrustStore):
        found = (store.certificates, store.password)
    if isinstance(store, KeyStore):
        found = (store.certificate_chain, store.key, store.password, store.key_password)
    return tuple(secret for secret in found if secret is not None)


def is_here(store: TrustStore | KeyStore) -> bool:
    """Return True if this process can read the store and all its secrets."""
    location = store.location
    can_be_read = location is None or os.access(location, os.R_OK)
    return can_be_read and all(secret.is_here for secret in secrets_of(store))


def read_store(location: str, option: str) -> bytes:
    """Read the bytes of a store.

    Args:
        location: an absolute path, or one relative to this process's working directory.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the file is missing or cannot be read by this process.
    """
    try:
        return Path(location).read_bytes()
    except ValueError:
        raise ConfigError(f"option {option} holds no path: it has a NUL character") from None
    except OSError as error:
        raise ConfigError(
            f"option {option} names {shown_file(location)}, which can't be read on "
            f"{socket.gethostname()}: {error.strerror}",
            hint=_hint(location, error),
        ) from None  # the cause shows the location, which may not be a path


def _hint(location: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "Let the user that Spark's driver and executors run as read it."
    if Path(location).is_absolute() and location in shown_file(location):
        return (
            "The file must be on the driver and on every executor: put it there, or ship it with "
            f"--files {location} and give the option the name {Path(location).name}."
        )
    return (
        f"It was looked for in the working directory {Path.cwd()} and among the files that Spark "
        "ships: ship it with --files or spark.sparkContext.addFile, or give an absolute path."
    )
