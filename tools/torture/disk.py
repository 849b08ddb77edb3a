"""A small disk that can be filled: a tmpfs when root, or any folder that the user names."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE_MIB = 48
_STEP = 1 << 16


@contextlib.contextmanager
def small_disk(folder: Path | None = None) -> Iterator[Path | None]:
    """An empty folder on a small file system; None where there is none and none can be made."""
    if folder is not None:
        yield folder
        return
    if os.geteuid() != 0 or shutil.which("mount") is None:
        yield None
        return
    made = Path(tempfile.mkdtemp(prefix="sks-disk-"))
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "sks-disk", str(made)]
    done = subprocess.run(mounted, capture_output=True, check=False).returncode == 0
    try:
        yield made if done else None
    finally:
        if done:
            subprocess.run(["umount", "-l", str(made)], check=False)
        made.rmdir()


def fill(folder: Path) -> None:
    """Leave no byte free."""
    with (folder / "ballast").open("ab", buffering=0) as ballast:
        for step in (_STEP, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while ballast.write(bytes(step)) == step:
                    pass


def empty(folder: Path) -> None:
    """Free what `fill` took."""
    (folder / "ballast").unlink(missing_ok=True)
