"""The extras: what each is for and brings, and where it has to be installed."""

from __future__ import annotations

import re
import tomllib

from spark_kafka_sink.common.extras import EXTRAS
from tools.docs.markdown import table
from tools.docs.pages import ROOT


def render_extras() -> str:
    """One line for each extra of `pyproject.toml` but the one for work on the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [("none", "writing, and the embedded broker", project["dependencies"], _EVERYWHERE)]
    rows += [
        (f"`{name}`", extra.purpose, project["optional-dependencies"][name], extra.place)
        for name, extra in EXTRAS.items()
    ]
    return table(
        ("extra", "for", "brings", "where"),
        ((name, purpose, _brought(needs), place) for name, purpose, needs, place in rows),
    )


_EVERYWHERE = EXTRAS["spark"].place
_NAME = re.compile(r"(spark-kafka-sink)?\[?([\w,-]+)")


def _brought(requirements: list[str]) -> str:
    """Names of the distributions; of extras of our own theirs, in code."""
    names: list[str] = []
    for each in requirements:
        found = _NAME.match(each)
        if found is None:
            raise ValueError(f"no requirement: {each}")
        own, name = found.groups()
        names += [f"`{extra}`" for extra in name.split(",")] if own else [name]
    return ", ".join(names)
