"""Read keystores and truststores: PEM, JKS and PKCS12.

`client_identity` returns the client's certificate chain and private key, and `trusted_certificates`
returns the certificates of trusted authorities.

Format: as in Java, JKS and PKCS12 are detected from the bytes of the file (keystore.type.compat),
because PKCS12 files are often configured without a type although Kafka's default is JKS. Only PEM
must be configured.

PEM is read as in Kafka's clients (RFC 7468; DefaultSslEngineFactory.PemStore). In the value of an
option, line breaks can be replaced by spaces, or by a backslash and an n, as happens in properties
files and shells.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.text import shown_file
from spark_kafka_sink.config.security.security_config import (
    KeyStore,
    StoreType,
    TlsConfig,
    TrustStore,
)
from spark_kafka_sink.kafka.security.credentials import secrets_of, utf8_text
from spark_kafka_sink.kafka.security.tls import jks

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

    from spark_kafka_sink.common.secret import Secret


_JCEKS = b"\xce\xce\xce\xce"
_SEQUENCE = 0x30
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+?)-----(.*?)-----END \1-----", re.DOTALL)
_HEADER = re.compile(r"^\s*[A-Za-z-]+:[^\n]*\n", re.MULTILINE)
_LINE = 64
_OWN_KEY_HINT = (
    " A key with a password other than the store's is not supported: recreate the store with "
    "keytool."
)
TRUSTSTORE_LOCATION = "kafka.ssl.truststore.location"
_KEYSTORE_LOCATION = "kafka.ssl.keystore.location"


def store_format(content: bytes, declared: StoreType, option: str) -> StoreType:
    """Return the format of a store.

    Args:
        content: the file's bytes.
        declared: the configured type, or Java's default.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the file is PEM but not configured as PEM, is configured as PEM but has a
            different format, or has an unknown format.
    """
    detected = _detected_format(content)
    type_option = option.replace(".location", ".type")
    if content.startswith(_JCEKS):
        raise ConfigError(
            f"option {option} refers to a JCEKS keystore, which is not supported",
            hint="Convert it with keytool -importkeystore -deststoretype pkcs12.",
        )
    if declared is StoreType.PEM:
        if detected is None:
            return StoreType.PEM
        raise ConfigError(
            f"option {option} refers to a {detected.value} file, but {type_option} is PEM",
            hint=f"Set {type_option}={detected.value}.",
        )
    if detected is not None:
        return detected
    looks_pem = b"-----BEGIN " in content
    raise ConfigError(
        f"option {option} refers to a file that is neither JKS nor PKCS12",
        hint=f"It is PEM: set {type_option}=PEM." if looks_pem else None,
    )


def _detected_format(content: bytes) -> StoreType | None:
    if content.startswith(jks.MAGIC):
        return StoreType.JKS
    if content[:1] == bytes([_SEQUENCE]):
        return StoreType.PKCS12
    return None


@dataclass(frozen=True, slots=True)
class PemBlock:
    """One PEM block, from BEGIN to END.

    Args:
        label: type of the block, such as CERTIFICATE or ENCRYPTED PRIVATE KEY.
        headers: headers of RFC 1421, such as `Proc-Type: 4,ENCRYPTED`; empty for newer formats.
        data: the decoded bytes.
    """

    label: str
    headers: str
    data: bytes = field(repr=False)

    @property
    def is_certificate(self) -> bool:
        """True if the block is an X.509 certificate."""
        return self.label in {"CERTIFICATE", "X509 CERTIFICATE"}

    @property
    def is_private_key(self) -> bool:
        """True if the block is a private key of any kind, encrypted or not."""
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
    """Return all blocks of a text in order. Text between the blocks is ignored.

    Raises:
        ConfigError: a block is empty or not base64.
    """
    spread = text.replace("\\n", "\n").replace("\\r", "").replace("\r", "")
    return [_block(match[1], match[2], option) for match in _BLOCK.finditer(spread)]


def _block(label: str, body: str, option: str) -> PemBlock:
    headers = "".join(f"{match[0].strip()}\n" for match in _HEADER.finditer(body))
    encoded = "".join(_HEADER.sub("", body).split())
    if not (headers.isascii() and encoded.isascii()):
        raise _damaged(label, option, "contains characters that are not ASCII")
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise _damaged(label, option, "is not base64") from error
    if not data:
        raise _damaged(label, option, "is empty")
    return PemBlock(label, headers, data)


def _damaged(label: str, option: str, problem: str) -> ConfigError:
    return ConfigError(
        f"option {option} contains a PEM block {label} that {problem}",
        hint="Set the option to the unchanged text of the file; line breaks can be replaced by "
        "spaces.",
    )


def read_pkcs12(content: bytes, password: Secret | None, option: str) -> PKCS12KeyAndCertificates:
    """Read a PKCS12 store.

    Args:
        content: the whole file.
        password: password of the store and its key, which is the same in PKCS12.
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
            f"the PKCS12 store of option {option} uses unsupported encryption: {error}",
            hint="Recreate it with keytool -importkeystore of Java 17 or newer.",
        ) from error
    except ValueError as error:
        problem = "needs a password" if password is None else "cannot be opened"
        raise ConfigError(
            f"the PKCS12 store of option {option} {problem}",
            hint=f"Check {password_option}: it must be the password of the store and of its key."
            + (_OWN_KEY_HINT if option == _KEYSTORE_LOCATION else ""),
        ) from error


def all_certificates(store: PKCS12KeyAndCertificates) -> list[bytes]:
    """Return every certificate of a store as DER."""
    own = [store.cert.certificate] if store.cert else []
    others = [entry.certificate for entry in store.additional_certs]
    return [_der(certificate) for certificate in own + others]


def certificate_chain(store: PKCS12KeyAndCertificates) -> tuple[bytes, ...]:
    """Return the key's certificate, followed by the certificates of its issuers in order.

    A store can contain certificates in any order, even certificates that are unrelated to the key.
    """
    if store.cert is None:
        return ()
    chain = [store.cert.certificate]
    candidates = [entry.certificate for entry in store.additional_certs]
    while issuer := _issuer(chain[-1], candidates):
        chain.append(issuer)
        candidates.remove(issuer)
    return tuple(_der(certificate) for certificate in chain)


def _issuer(
    certificate: x509.Certificate, others: list[x509.Certificate]
) -> x509.Certificate | None:
    if certificate.issuer == certificate.subject:
        return None
    return next((other for other in others if other.subject == certificate.issuer), None)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def open_jks(content: bytes, password: Secret | None, option: str) -> jks.JksStore:
    """Read a JKS store.

    Args:
        content: the whole file.
        password: password of the store; None to skip the integrity check, as Java does.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is wrong, or the file is damaged.
    """
    try:
        return jks.read_jks(content, utf8_text(password) if password is not None else None)
    except jks.JksPasswordError as error:
        raise ConfigError(
            f"the JKS store of option {option} cannot be opened",
            hint=f"{option.replace('.location', '.password')} is wrong, or the file is damaged.",
        ) from error
    except jks.JksFormatError as error:
        raise ConfigError(
            f"the JKS store of option {option} is damaged or truncated",
            hint="Copy it again in binary mode.",
        ) from error


def jks_private_key(key: jks.JksKey, password: Secret | None, option: str) -> PrivateKeyTypes:
    """Return the private key of an entry.

    Args:
        key: the entry.
        password: password of the key, which is the store's password by default.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is missing or wrong, or the key cannot be read.
    """
    if password is None:
        raise ConfigError(
            f"the private key in option {option} is encrypted, and no password is set for it",
            hint="Set kafka.ssl.keystore.password, or kafka.ssl.key.password if it differs.",
        )
    try:
        return serialization.load_der_private_key(key.decrypt(utf8_text(password)), None)
    except jks.JksPasswordError as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} cannot be decrypted with "
            f"{password.option}",
            hint="The password is wrong, or the key has a different password: set "
            "kafka.ssl.key.password.",
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} has an unsupported type",
            hint="Convert the store with keytool -importkeystore -deststoretype pkcs12.",
        ) from error


def store_files(config: TlsConfig) -> tuple[str, ...]:
    """Return all files of a context, including files with secrets or the system's authorities."""
    stores = [store for store in (config.truststore, config.keystore) if store is not None]
    system = ssl.get_default_verify_paths().cafile if config.truststore is None else None
    inline = [secret.file for store in stores for secret in secrets_of(store)]
    return tuple(
        path
        for path in (system, *(trust_store.location for trust_store in stores), *inline)
        if path
    )


def can_read_store(store: TrustStore | KeyStore) -> bool:
    """Return True if this process can read the store and all of its secrets."""
    location = store.location
    can_be_read = location is None or os.access(location, os.R_OK)
    return can_be_read and all(secret.exists_on_host for secret in secrets_of(store))


def read_store(location: str, option: str) -> bytes:
    """Read the bytes of a store.

    Args:
        location: an absolute path, or a path relative to this process's working directory.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the file is missing or cannot be read by this process.
    """
    try:
        return Path(location).read_bytes()
    except ValueError:
        raise ConfigError(
            f"option {option} is not a path: it contains a NUL character",
            hint="Remove the character.",
        ) from None
    except OSError as error:
        # Without the cause, because it contains the location, which might be a secret.
        raise ConfigError(
            f"option {option} refers to {shown_file(location)}, which cannot be read on "
            f"{socket.gethostname()}: {error.strerror}",
            hint=_hint(location, error),
        ) from None


def _hint(location: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "Grant read permission to the user of Spark's driver and executors."
    if Path(location).is_absolute() and location in shown_file(location):
        return (
            "The file must be on the driver and on every executor: put it there, or ship it with "
            f"--files {location} and set the option to {Path(location).name}."
        )
    return (
        f"The file was not found in the working directory {Path.cwd()} or among the files that "
        "Spark ships: ship it with --files or spark.sparkContext.addFile, or set an absolute path."
    )


def private_key(block: PemBlock, password: Secret | None, option: str) -> PrivateKeyTypes:
    """Load a private key from PEM: PKCS#1, PKCS#8 or SEC 1, encrypted or not.

    Args:
        block: PEM block with a private key.
        password: password of the key; ignored if the key is not encrypted.
        option: the option that contains the key; shown in errors.

    Raises:
        ConfigError: the password is missing or wrong, or the key cannot be read.
    """
    is_encrypted = block.label == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in block.headers
    if is_encrypted and password is None:
        raise ConfigError(
            f"the private key in option {option} is encrypted, and no password is set for it",
            hint="Set kafka.ssl.key.password.",
        )
    secret = utf8_text(password).encode() if password is not None and is_encrypted else None
    try:
        return serialization.load_pem_private_key(block.text(), secret)
    except UnsupportedAlgorithm as error:
        raise ConfigError(
            f"the private key in option {option} has an unsupported type: {error}",
            hint="Recreate it with openssl pkcs8 -topk8 -v2 aes-256-cbc.",
        ) from error
    except (ValueError, TypeError) as error:
        raise _unreadable(option, is_encrypted=is_encrypted) from error


def _unreadable(option: str, *, is_encrypted: bool) -> ConfigError:
    if is_encrypted:
        return ConfigError(
            f"the private key in option {option} cannot be decrypted with kafka.ssl.key.password",
            hint="The password is wrong, the key is damaged, or its cipher is not supported: "
            "recreate it with openssl pkcs8 -topk8 -v2 aes-256-cbc.",
        )
    return ConfigError(
        f"the private key in option {option} cannot be read",
        hint="It must be PEM with PKCS#8, PKCS#1 or SEC 1, as written by openssl pkey.",
    )


def encrypt_private_key(key: PrivateKeyTypes) -> tuple[bytes, str]:
    """Return the key as encrypted PKCS#8 in PEM, and a new passphrase for it."""
    passphrase = secrets.token_hex(32)
    encryption = serialization.BestAvailableEncryption(passphrase.encode())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return text, passphrase


@dataclass(frozen=True, slots=True)
class Identity:
    """A client's certificate chain and private key.

    Args:
        chain: certificates as DER, starting with the client's own certificate.
        key: private key of the first certificate.
        option: the option that contains chain and key; shown in errors.
    """

    chain: tuple[bytes, ...] = field(repr=False)
    key: PrivateKeyTypes = field(repr=False)
    option: str

    def chain_text(self) -> bytes:
        """Return the chain as PEM."""
        return "".join(map(ssl.DER_cert_to_PEM_cert, self.chain)).encode()


def client_identity(store: KeyStore) -> Identity:
    """Return the first certificate chain with a key in a keystore.

    Raises:
        ConfigError: the store cannot be read or opened, or contains no certificate or no key.
    """
    if store.location is None:
        return _inline_identity(store)
    content = read_store(store.location, _KEYSTORE_LOCATION)
    match store_format(content, store.type, _KEYSTORE_LOCATION):
        case StoreType.PEM:
            blocks = pem_blocks(content.decode("latin-1"), _KEYSTORE_LOCATION)
            return _pem_identity(blocks, store, _KEYSTORE_LOCATION)
        case StoreType.PKCS12:
            return _pkcs12_identity(content, store)
        case StoreType.JKS:
            return _jks_identity(content, store)


def _pkcs12_identity(content: bytes, store: KeyStore) -> Identity:
    opened = read_pkcs12(content, store.password or store.key_password, _KEYSTORE_LOCATION)
    if opened.key is None:
        raise _lacks("private key", _KEYSTORE_LOCATION)
    chain = certificate_chain(opened)
    if not chain:
        raise _lacks("certificate", _KEYSTORE_LOCATION)
    return Identity(chain, opened.key, _KEYSTORE_LOCATION)


def _jks_identity(content: bytes, store: KeyStore) -> Identity:
    opened = open_jks(content, store.password, _KEYSTORE_LOCATION)
    if not opened.keys:
        raise _lacks("private key", _KEYSTORE_LOCATION)
    entry = opened.keys[0]
    password = store.key_password or store.password
    return Identity(
        entry.chain, jks_private_key(entry, password, _KEYSTORE_LOCATION), _KEYSTORE_LOCATION
    )


def _inline_identity(store: KeyStore) -> Identity:
    if store.certificate_chain is None or store.key is None:
        raise ConfigError(
            "a keystore in options requires both kafka.ssl.keystore.certificate.chain and "
            "kafka.ssl.keystore.key",
            hint="Set both, or kafka.ssl.keystore.location.",
        )
    chain = pem_blocks(store.certificate_chain.reveal(), store.certificate_chain.option)
    key = pem_blocks(store.key.reveal(), store.key.option)
    certificates = [block for block in chain if block.is_certificate]
    if not certificates:
        raise _lacks("certificate", store.certificate_chain.option)
    keys = [block for block in key if block.is_private_key]
    return _pem_identity(certificates + keys, store, store.key.option)


def _pem_identity(blocks: list[PemBlock], store: KeyStore, option: str) -> Identity:
    chain = tuple(block.data for block in blocks if block.is_certificate)
    keys = [block for block in blocks if block.is_private_key]
    if not chain:
        raise _lacks("certificate", option)
    if not keys:
        raise _lacks("private key", option)
    return Identity(chain, private_key(keys[0], store.key_password, option), option)


def _lacks(content: str, option: str) -> ConfigError:
    return ConfigError(
        f"option {option} contains no {content}",
        hint="A keystore must contain the client's certificate chain and its private key.",
    )


def trusted_certificates(store: TrustStore) -> list[bytes]:
    """Return the certificates of a truststore as DER. The result is not empty.

    Raises:
        ConfigError: the store cannot be read or opened, or contains no certificate.
    """
    option = store.certificates.option if store.certificates else TRUSTSTORE_LOCATION
    entries = _read(store, option)
    if not entries:
        raise ConfigError(
            f"option {option} contains no certificate",
            hint="It must contain the certificates of the authorities that sign the brokers' "
            "certificates.",
        )
    return entries


def _read(store: TrustStore, option: str) -> list[bytes]:
    if store.certificates is not None:
        return _pem_certificates(store.certificates.reveal(), option)
    if store.location is None:
        raise ConfigError(
            "a truststore requires kafka.ssl.truststore.location or .certificates",
            hint="Set one of them.",
        )
    content = read_store(store.location, option)
    match store_format(content, store.type, option):
        case StoreType.PEM:
            return _pem_certificates(content.decode("latin-1"), option)
        case StoreType.PKCS12:
            return all_certificates(read_pkcs12(content, store.password, option))
        case StoreType.JKS:
            return _jks_certificates(open_jks(content, store.password, option))


def _jks_certificates(store: jks.JksStore) -> list[bytes]:
    """Return the trusted certificates and each key's first certificate, as Java's PKIX does."""
    return [*store.certificates, *(key.chain[0] for key in store.keys if key.chain)]


def _pem_certificates(text: str, option: str) -> list[bytes]:
    return [block.data for block in pem_blocks(text, option) if block.is_certificate]
