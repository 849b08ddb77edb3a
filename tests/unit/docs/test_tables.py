"""The generated tables are complete, and every row has a description."""

from collections.abc import Callable

import pytest

from spark_kafka_sink.config import option_names
from spark_kafka_sink.config.enums import PartitionerName
from spark_kafka_sink.config.options import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.security.security_names import (
    IGNORED_SECURITY_KEYS,
    REJECTED_SECURITY_KEYS,
    SECURITY_ALIASES,
)
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from tools.docs.__main__ import GENERATED
from tools.docs.pages import table
from tools.docs.reference import (
    render_options,
    render_other_names,
    render_security_options,
    render_sink_options,
)


def rows_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


def test_options_have_a_row_each() -> None:
    assert [row.split("`")[1] for row in rows_of(render_sink_options())] == [
        option.name for option in SINK_OPTIONS
    ]
    assert [row.split("`")[1] for row in rows_of(render_options())] == [
        f"kafka.{option.name}" for option in PRODUCER_OPTIONS
    ]


@pytest.mark.parametrize("render", [render_options, render_sink_options, render_security_options])
def test_descriptions_of_options_are_sentences(render: Callable[[], str]) -> None:
    assert all(row.endswith(". |") for row in rows_of(render()))


def test_security_options_have_a_row_each_and_aliases_are_listed() -> None:
    assert [row.split("`")[1] for row in rows_of(render_security_options())] == [
        f"kafka.{option.name}" for option in SECURITY_OPTIONS
    ]
    others = render_other_names()
    names = {*SECURITY_ALIASES, *IGNORED_SECURITY_KEYS, *REJECTED_SECURITY_KEYS}
    assert {name for name in names if f"`kafka.{name}`" not in others} == set()


def test_deviations_are_marked_and_ignored_options_are_listed() -> None:
    text = render_options()
    assert "| `kafka.batch.size` | **`1048576`** | `16384` | 0 or more |" in text
    assert "| `kafka.acks` | `all` | `all` | all, -1, 0, 1 |" in text
    assert f"{PartitionerName.ROUND_ROBIN.value}" in text
    others = render_other_names()
    assert all(f"`kafka.{name}`" in others for name in option_names.IGNORED_PRODUCER_KEYS)


def test_no_row_lacks_its_last_cell() -> None:
    for name, render in GENERATED.items():
        for row in rows_of(render()):
            assert name == "profiles" or not row.endswith("|  |"), f"{name}: {row}"


def test_pipe_character_in_a_cell_is_escaped() -> None:
    assert table(("a",), [("b|c",)]) == "| a |\n|---|\n| b\\|c |\n"
