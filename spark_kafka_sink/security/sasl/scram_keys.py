"""SCRAM's proofs (RFC 5802, section 3), and the salted passwords that a process has made."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections import OrderedDict
from threading import Lock

KEPT = 32
"""Salted passwords in a process: each user has one per salt, so a few are many."""


class SaltedPasswords:
    """PBKDF2's results, so that many connections of one user don't hash again.

    A key is a keyed digest: neither passwords nor what guesses them quickly stay in memory.
    """

    def __init__(self) -> None:
        self._digest_key = os.urandom(32)
        # Guards `_made`, and is held while hashing: whoever waits finds the result.
        self._lock = Lock()
        self._made: OrderedDict[bytes, bytes] = OrderedDict()

    def salted(self, algorithm: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        """`Hi(password, salt, i)` under a hash of hashlib's name."""
        key = self._key_of(algorithm, password, salt, iterations)
        with self._lock:
            made = self._made.get(key)
            if made is None:
                made = hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
                self._made[key] = made
                if len(self._made) > KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return made

    def _key_of(self, algorithm: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        head = f"{algorithm},{iterations},{len(salt)},".encode()
        return hmac.digest(self._digest_key, head + salt + password, "sha256")


PROCESS_WIDE = SaltedPasswords()
"""Shared by all connections of a worker process."""


def client_proof(algorithm: str, salted_password: bytes, auth_message: bytes) -> bytes:
    """`ClientKey XOR HMAC(H(ClientKey), AuthMessage)`."""
    client_key = hmac.digest(salted_password, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    signature = hmac.digest(stored_key, auth_message, algorithm)
    return bytes(left ^ right for left, right in zip(client_key, signature, strict=True))


def server_signature(algorithm: str, salted_password: bytes, auth_message: bytes) -> bytes:
    """What only a server that knows the user's ServerKey can send."""
    server_key = hmac.digest(salted_password, b"Server Key", algorithm)
    return hmac.digest(server_key, auth_message, algorithm)
