"""Bugs that the seeded runs must find: some of those of the stream scenarios, planted in-process.

Those that need two drivers between each other's requests are for the model (`tools/model`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once import protocol
from spark_kafka_sink.exactly_once.steps import commit
from tools.torture.streams.injection.hooks import PATCHES, Bug

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

BUGS: dict[Bug, ModuleType] = {
    Bug.MARKER_NOT_CHECKED: protocol,
    Bug.ABORT_DOES_NOT_READ: protocol,
    Bug.DECIDED_AFTER_END: commit,
}
"""Each bug and the module that calls the functions it replaces."""


def plant(bug: Bug, patch: pytest.MonkeyPatch) -> None:
    """Replace the functions of a bug."""
    for each in PATCHES[bug]:
        patch.setattr(BUGS[bug], each.function, each.make(getattr(BUGS[bug], each.function)))
