"""Temporary folders of clusters; what killed processes left behind is swept away."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "sks-kafka-"


def new_folder() -> Path:
    """A fresh temporary folder whose name carries this process's id."""
    _sweep()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
