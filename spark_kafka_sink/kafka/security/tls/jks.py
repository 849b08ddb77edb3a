"""Read Java's keystore format JKS (sun.security.provider.JavaKeyStore), versions 1 and 2.

    magic, version, count                          int32 each, big-endian
    count times: tag, alias, date                  int32, UTF with a length of 2 bytes, int64
      tag 1, a key:  length, EncryptedPrivateKeyInfo, number of certificates, certificates
      tag 2:         certificate                   [type as UTF, version 2], length, DER
    SHA-1 of password, "Mighty Aphrodite" and all preceding bytes

The password is encoded as UTF-16, big-endian. A key is encrypted with a proprietary cipher of Sun,
a stream of SHA-1 digests.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from io import BytesIO

MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _CERTIFICATE = 1, 2
_DIGEST_SIZE = 20
_WHITENER = b"Mighty Aphrodite"
_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1 in DER."""


class JksFormatError(ValueError):
    """The bytes are not a keystore in this format."""


class JksPasswordError(ValueError):
    """The password of the store or of a key is wrong."""


@dataclass(frozen=True, slots=True)
class JksKey:
    """An entry with a private key, which is encrypted, and its certificate chain."""

    alias: str
    encrypted: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)

    def decrypt(self, password: str) -> bytes:
        """Return the key as PKCS#8 in DER.

        Raises:
            JksPasswordError: the password is wrong.
            JksFormatError: the key is encrypted with an unsupported algorithm.
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
    """The content of a keystore, in the order of the file."""

    keys: tuple[JksKey, ...]
    certificates: tuple[bytes, ...]


def read_jks(content: bytes, password: str | None) -> JksStore:
    """Read a JKS keystore.

    Args:
        content: the whole file.
        password: password of the store; None to skip the integrity check, as Java does.

    Raises:
        JksPasswordError: the password is wrong, or the file was modified.
        JksFormatError: the file has a different format, or is truncated.
    """
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    reader = _JksReader(body)
    if reader.read_bytes(4) != MAGIC or (version := reader.read_int32()) not in {1, 2}:
        raise JksFormatError
    if password is not None:
        expected = _sha1(_as_java(password) + _WHITENER + body)
        if not hmac.compare_digest(expected, digest):
            raise JksPasswordError
    keys: list[JksKey] = []
    certificates: list[bytes] = []
    for _ in range(reader.read_int32()):
        tag, alias, _date = reader.read_int32(), reader.read_utf(), reader.read_bytes(8)
        if tag == _KEY:
            encrypted = reader.read_block()
            chain = tuple(reader.read_certificate(version) for _ in range(reader.read_int32()))
            keys.append(JksKey(alias, encrypted, chain))
        elif tag == _CERTIFICATE:
            certificates.append(reader.read_certificate(version))
        else:
            raise JksFormatError
    return JksStore(tuple(keys), tuple(certificates))


class _JksReader:
    def __init__(self, body: bytes) -> None:
        self._rest = BytesIO(body)

    def read_bytes(self, size: int) -> bytes:
        taken = self._rest.read(size) if size >= 0 else b""
        if len(taken) != size:
            raise JksFormatError
        return taken

    def read_int32(self) -> int:
        return int(struct.unpack(">i", self.read_bytes(4))[0])

    def read_block(self) -> bytes:
        return self.read_bytes(self.read_int32())

    def read_utf(self) -> str:
        return self.read_bytes(struct.unpack(">H", self.read_bytes(2))[0]).decode(
            "utf-8", "replace"
        )

    def read_certificate(self, version: int) -> bytes:
        if version > 1:
            self.read_utf()
        return self.read_block()


def _octets_after(der: bytes, algorithm: bytes) -> bytes:
    """Return the octets of SEQUENCE { SEQUENCE { algorithm, … }, OCTET STRING }."""
    key_info, _ = _read_element(der, 0x30)
    identifier, after_algorithm = _read_element(key_info, 0x30)
    if not identifier.startswith(algorithm):
        raise JksFormatError
    octets, _ = _read_element(after_algorithm, 0x04)
    if len(octets) < 2 * _DIGEST_SIZE:
        raise JksFormatError
    return octets


def _read_element(der: bytes, tag: int) -> tuple[bytes, bytes]:
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
