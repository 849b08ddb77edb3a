"""The users of the broker. No password is stored, only what verifies it."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""SCRAM mechanisms and hashlib's name of each one's hash (RFC 7677)."""
DEFAULT_ITERATIONS: Final = 4096
_SALT_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What Kafka stores of a password for SCRAM (RFC 5802, section 3)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, password: str, hash_name: str, iterations: int) -> ScramCredential:
        """Derive a credential from a password, with a new salt."""
        salt = os.urandom(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        return cls(
            salt=salt,
            stored_key=hashlib.new(hash_name, client_key).digest(),
            server_key=hmac.digest(salted, b"Server Key", hash_name),
            iterations=iterations,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _User:
    scram: Mapping[str, ScramCredential]
    password_mac: bytes = field(repr=False)


class Credentials:
    """The users of the broker.

    Read by the loop's thread, changed by any thread: a user is replaced atomically.

    Args:
        iterations: iterations of SCRAM's key derivation.
    """

    __slots__ = ("_iterations", "_key", "_users")

    def __init__(self, iterations: int = DEFAULT_ITERATIONS) -> None:
        self._iterations = iterations
        self._key = os.urandom(_SALT_BYTES)
        self._users: dict[str, _User] = {}

    def set_password(self, user: str, password: str) -> None:
        """Add a user, or change a user's password."""
        scram = {
            mechanism: ScramCredential.of(password, hash_name, self._iterations)
            for mechanism, hash_name in HASHES.items()
        }
        self._users[user] = _User(scram=scram, password_mac=self._mac(password))

    def remove(self, user: str) -> None:
        """Remove a user; no effect if there is none."""
        self._users.pop(user, None)

    def has_password(self, user: str, password: str) -> bool:
        """Return True if the user has this password; takes as long if there is no such user."""
        found = self._users.get(user)
        expected = self._key if found is None else found.password_mac
        return hmac.compare_digest(expected, self._mac(password)) and found is not None

    def scram(self, user: str, mechanism: str) -> ScramCredential | None:
        """Return a user's credential for a SCRAM mechanism, None if there is no such user."""
        found = self._users.get(user)
        return None if found is None else found.scram[mechanism]

    def _mac(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), "sha256")
