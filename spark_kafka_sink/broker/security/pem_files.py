"""PEM texts as files, for OpenSSL and for clients that take paths only."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from itertools import count
from pathlib import Path


class PemFiles:
    """A folder for its owner alone, which is removed when nobody has this object any more."""

    def __init__(self) -> None:
        self._pairs = count()
        self._folder = Path(tempfile.mkdtemp(prefix="kafkaprod-broker-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def write(self, name: str, text: str) -> Path:
        """Write a file, which nobody else may read, and return where it is."""
        path = self._folder / name
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def write_pair(self, certificate: str, key: str) -> tuple[Path, Path]:
        """Write a certificate and its key into new files, and return where they are."""
        name = f"pair-{next(self._pairs)}"
        return self.write(f"{name}.crt", certificate), self.write(f"{name}.key", key)
