"""README.md says what the code says."""

from __future__ import annotations

import ast
import re

import pytest

from spark_kafka_sink.broker.handlers import HANDLERS
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.partition_report import PartitionReport
from tools.checks.readme import BLOCKS, PACKAGE, README, ROOT, block, renewed

TEXT = README.read_text(encoding="utf-8")
REFRESH = "stale: run `make docs`"


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_from_the_code_are_fresh(name: str) -> None:
    assert block(TEXT, name) == BLOCKS[name](), REFRESH


def test_a_stale_block_is_renewed() -> None:
    stale = TEXT.replace(block(TEXT, "options"), "| an old table |\n")
    assert stale != TEXT
    assert renewed(stale) == renewed(TEXT)


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    for file in PACKAGE.rglob("*.py"):
        assert len(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "") > 10, file


def test_the_way_of_a_record_names_files_that_exist() -> None:
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = design.split("## Way of a record")[1].split("\n## ")[0]
    named = re.findall(r"`(\w[\w/]*\.py)`", section)
    assert len(named) > 25
    for name in named:
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT):
        assert (ROOT / link).exists(), link


def test_every_field_of_the_delivery_report_is_explained() -> None:
    section = TEXT.split("## Delivery report")[1].split("\n## ")[0]
    part = PartitionReport(topic="t", partition=0)
    for name in [*DeliveryReport(partitions=(part,))._to_dict(), *part.to_dict()]:
        assert f"`{name}`" in section, name


def test_every_api_of_the_embedded_broker_is_named() -> None:
    section = TEXT.split("## Embedded broker")[1].split("\n## ")[0]
    for handler in HANDLERS.values():
        name = "".join(word.capitalize() for word in handler.api.name.split("_"))
        assert f"{name} {handler.versions.lowest}-{handler.versions.highest}" in section, name


def test_every_profile_is_explained() -> None:
    section = TEXT.split("## Profiles")[1].split("\n## ")[0]
    for file in (ROOT / "conf").glob("*.conf"):
        assert f"conf/{file.name}" in section, file.name
