"""Reads the profiles: files of producer options in `conf/`, in Java's .properties syntax."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.enums import Profile
from spark_kafka_sink.config.properties import parse_properties

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PACKAGE = "spark_kafka_sink"
FOLDER = "conf"


def load_profile(profile: Profile) -> dict[str, str]:
    """The options a profile sets, by Java's names; none for `Profile.NONE`.

    Raises:
        ConfigError: the profile's file is not there.
    """
    return {} if profile is Profile.NONE else parse_properties(find(f"{profile}.conf").read_text())


def find(name: str) -> Traversable:
    """A file of `conf/`: inside the installed package, or beside it in a checkout.

    Raises:
        ConfigError: it is in neither place.
    """
    package = files(PACKAGE)
    places = (package / FOLDER / name, Path(str(package)).parent / FOLDER / name)
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        f"the file {FOLDER}/{name} is not where the package should have it",
        hint="Install the package again, or set its options one by one.",
    )
