"""The table of extras."""

import re
import tomllib

from spark_kafka_sink.common.optional_dependencies import EXTRAS
from tools.docs.pages import ROOT, table

_EVERYWHERE = EXTRAS["spark"].machine
_NAME = re.compile(r"(spark-kafka-sink)?\[?([\w,-]+)")


def render_extras() -> str:
    """Return a list of the extras in `pyproject.toml`, except the development extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [("none", "writing, and the embedded broker", project["dependencies"], _EVERYWHERE)]
    rows += [
        (f"`{name}`", extra.purpose, project["optional-dependencies"][name], extra.machine)
        for name, extra in EXTRAS.items()
    ]
    return table(
        ("extra", "for", "brings", "where"),
        ((name, purpose, _brought(needs), place) for name, purpose, needs, place in rows),
    )


def _brought(requirements: list[str]) -> str:
    """Return the names of required distributions; extras of this package are formatted as code."""
    names: list[str] = []
    for requirement in requirements:
        match = _NAME.match(requirement)
        if match is None:
            raise ValueError(f"no requirement: {requirement}")
        own, name = match.groups()
        names += [f"`{extra}`" for extra in name.split(",")] if own else [name]
    return ", ".join(names)
