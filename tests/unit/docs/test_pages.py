"""README.md and docs/ match the code, and everything that they name exists."""

import re
from pathlib import Path

import pytest

import spark_kafka_sink
from spark_kafka_sink.common.debug_log import DebugContext
from spark_kafka_sink.config.option_tables import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.security.security_names import SECURITY_ALIASES, SECURITY_NAMES
from tests.unit.docs.page_checks import (
    broken_links,
    commands,
    missing_files,
    missing_paths,
    problem,
    without_blocks,
)
from tools.checks import release
from tools.docs.__main__ import GENERATED, MEASURED
from tools.docs.pages import DOCS, README, ROOT, block, blocks, page_of, pages

PAGES = pages()
ELSEWHERE = {
    "kafka.transactional.id",
    "kafka.key.serializer",
    "kafka.group.id",
    "kafka.auto.offset.reset",
    "kafka.producer.record_send_total",
}
"""Names with such a beginning that are no options here, and are named for that."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("name", GENERATED)
def test_generated_blocks_are_current(name: str) -> None:
    assert block(text_of(page_of(name)), name) == GENERATED[name](), "stale: run `make docs`"


def test_every_block_has_a_generator() -> None:
    names = [name for page in PAGES for name in blocks(text_of(page))]
    assert sorted(names) == sorted([*GENERATED, *MEASURED])


@pytest.mark.parametrize("name", MEASURED)
def test_measured_blocks_contain_a_table(name: str) -> None:
    assert "\n|---" in block(text_of(page_of(name)), name).replace("| ---", "|---")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_table_begins_with_its_head(page: Path) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", without_blocks(text_of(page)), re.MULTILINE)
    assert [table for table in tables if not re.match(r".*\n\|[-:| ]+\|\n", table)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_of_the_pages_resolve(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_named_files_exist(page: Path) -> None:
    assert missing_paths(page) == []


def test_files_named_in_docstrings_exist() -> None:
    modules = (ROOT / "spark_kafka_sink").rglob("*.py")
    missing = {named(module): missing_files(module) for module in modules}
    assert {module: paths for module, paths in missing.items() if paths} == {}


def test_design_names_code_that_exists() -> None:
    """Each name in backticks is a word of the package, or a file (see `test_named_files_exist`)."""
    words = {
        word
        for path in (ROOT / "spark_kafka_sink").rglob("*.py")
        for word in re.findall(r"\w+", text_of(path))
    }
    names = re.findall(r"`([\w.]+)`", text_of(DOCS / "design.md"))
    assert [name for name in names if not words.issuperset(name.split("."))] == []


def test_comments_name_all_invariants_and_no_others() -> None:
    invariants = set(re.findall(r"- \*\*([\w-]+)\*\*: ", text_of(DOCS / "design.md")))
    files = (ROOT / "spark_kafka_sink").rglob("*.py")
    named_in_code = {
        name for path in files for name in re.findall(r"design\.md: ([\w-]+)", text_of(path))
    }
    assert named_in_code == invariants


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_shell_examples_are_valid(page: Path) -> None:
    for words in commands(text_of(page)):
        assert problem(words) is None, words


def test_every_page_is_reachable_from_the_readme() -> None:
    text = text_of(README)
    assert [page.name for page in DOCS.glob("*.md") if f"(docs/{page.name})" not in text] == []


def test_every_public_name_is_documented() -> None:
    text = "".join(map(text_of, PAGES))
    assert [name for name in spark_kafka_sink.__all__ if name[0] != "_" and name not in text] == []


def test_every_profile_and_settings_file_is_documented() -> None:
    text = "".join(map(text_of, PAGES))
    assert [
        file.name for file in (ROOT / "conf").iterdir() if f"conf/{file.name}" not in text
    ] == []


def test_every_debug_context_is_documented() -> None:
    text = text_of(DOCS / "metrics.md")
    assert [context for context in DebugContext if f"| `{context}` |" not in text] == []


def test_options_named_in_pages_exist() -> None:
    known = {f"kafka.{option.name}" for option in PRODUCER_OPTIONS}
    known |= {f"kafka.{name}" for name in SECURITY_NAMES | SECURITY_ALIASES.keys()}
    known |= {option.name for option in SINK_OPTIONS}
    begins = ("kafka.", "errors.", "rateLimit.", "metrics.", "report.tasks")
    for page in PAGES:
        for text in re.findall(r"`([\w.]*\w)(?:=[^`]*)?`", without_blocks(text_of(page))):
            if text.startswith(begins):
                assert text in known | ELSEWHERE, f"{page.name}: {text}"


@pytest.mark.parametrize(
    "line",
    ["make nothing", "kafkaprod brokr", "kafkaprod broker --no-such", "python -m tools.no", "rm x"],
)
def test_invalid_command_is_detected(line: str) -> None:
    assert problem(line.split()) is not None


def test_release_check_runs_the_first_example() -> None:
    example = release.BATCH_EXAMPLE.search((release.ROOT / "README.md").read_text(encoding="utf-8"))
    assert example is not None
    for part in ('format("kafkaprod")', release.README_ADDRESS, "report.json"):
        assert part in example[1]
