"""Bugs that the seeded runs must detect: some of the stream scenarios' bugs, planted in-process.

Bugs that require interleaved requests of two drivers are tested by the model (`tools/model`).
"""

from types import ModuleType

import pytest

from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.steps import commit
from tools.torture.streams.injection.hooks import PATCHES, Bug

BUGS: dict[Bug, ModuleType] = {
    Bug.MARKER_NOT_CHECKED: decision_rules,
    Bug.ABORT_DOES_NOT_READ: decision_rules,
    Bug.DECIDED_AFTER_END: commit,
}
"""The module whose functions each bug replaces."""


def plant(bug: Bug, patch: pytest.MonkeyPatch) -> None:
    """Replace functions with those of a bug."""
    for bug_patch in PATCHES[bug]:
        patch.setattr(
            BUGS[bug], bug_patch.function, bug_patch.make(getattr(BUGS[bug], bug_patch.function))
        )
