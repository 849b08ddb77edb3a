"""What a stream's checkpoint tells of its query, where it is a folder of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit


def query_id(checkpoint: str) -> str:
    """The id in the file `metadata` of Spark's StreamMetadata; empty where none can be read."""
    try:
        place = urlsplit(checkpoint)
        if not checkpoint or place.scheme not in ("", "file") or place.netloc:
            return ""
        folder = unquote(place.path) if place.scheme else checkpoint
        return str(json.loads((Path(folder) / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
