"""Copy the pages for mkdocs, and add an API reference of all public names: `make site`.

The copy has the same folders as the repository, so that links between pages work unchanged.
README.md becomes the first page.
"""

import shutil

import spark_kafka_sink
from tools.docs.pages import ROOT, pages

TARGET = ROOT / "build" / "site-pages"
FOLDERS = ("docs", "conf", "notebooks", "examples")
FILES = ("CHANGELOG.md", "LICENSE", "tests/support/transactions/transactions.txt")
_INTRODUCTION = """# Python API

Import these names from `spark_kafka_sink`. The options of `format("kafkaprod")` are on
[their own page](docs/options.md).
"""


def reference() -> str:
    """Return the API reference: one section for each public name, functions first."""
    names = [name for name in spark_kafka_sink.__all__ if not name.startswith("_")]
    names.sort(key=lambda name: (name[0].isupper(), name.endswith("Error"), name))
    modules = {name: getattr(spark_kafka_sink, name).__module__ for name in names}
    return "\n".join([_INTRODUCTION, *(f"::: {modules[name]}.{name}\n" for name in names)])


def main() -> None:
    """Create the copy; replace an existing copy."""
    shutil.rmtree(TARGET, ignore_errors=True)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, TARGET / folder)
    sources = [page for page in pages() if page.parent == ROOT]
    for source in [*sources, *(ROOT / name for name in FILES)]:
        copy = TARGET / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    (TARGET / "reference.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
