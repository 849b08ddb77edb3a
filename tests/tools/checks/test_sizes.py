"""The size check reports large functions and incomplete package docstrings."""

from pathlib import Path

from tools.checks.sizes import offenders, unlisted


def test_large_functions() -> None:
    long = "def f():\n" + "    x = 1\n" * 60
    assert list(offenders(long, "f")) == ["f:1: f has 61 lines, at most 60"]


def test_package_docstring_lists_each_module_once(tmp_path: Path) -> None:
    (tmp_path / "one.py").touch()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "__init__.py").touch()
    init = tmp_path / "__init__.py"
    init.write_text('"""A package.\n\n- `one`: the first\n- `two`: the second\n"""\n')
    assert list(unlisted(init)) == []
    init.write_text('"""A package.\n\n- `one`: the first\n- `one`: again\n- `three`: gone\n"""\n')
    assert [line.partition(": ")[2] for line in unlisted(init)] == [
        "the docstring does not list `two`",
        "the docstring lists `three`, which does not exist",
        "the docstring lists a module twice",
    ]
