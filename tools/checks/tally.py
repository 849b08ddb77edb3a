"""Counts of one pytest run, read from its JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Tests that passed and that didn't; a skipped test counts as failed."""

    passed: int = 0
    failed: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(passed=self.passed + other.passed, failed=self.failed + other.failed)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"

    @classmethod
    def read(cls, report: Path) -> Self:
        """Count the test suites of `report`; one failure where pytest didn't get to write it."""
        if not report.exists():
            return cls(failed=1)
        total = failed = 0
        for suite in ET.parse(report).getroot().iter("testsuite"):
            total += int(suite.get("tests", 0))
            failed += sum(int(suite.get(kind, 0)) for kind in ("failures", "errors", "skipped"))
        return cls(passed=max(total - failed, 0), failed=failed)


def seconds_by_file(report: Path) -> dict[str, float]:
    """What each test file took; empty where pytest didn't get to write the report."""
    seconds: defaultdict[str, float] = defaultdict(float)
    if report.exists():
        for case in ET.parse(report).getroot().iter("testcase"):
            seconds[case.get("file", "")] += float(case.get("time", 0))
    return dict(seconds)


def failed_tests(report: Path) -> tuple[str, ...]:
    """The tests that failed, as pytest takes them: file, classes and name."""
    if not report.exists():
        return ()
    cases = ET.parse(report).getroot().iter("testcase")
    return tuple(_node(case) for case in cases if _failed(case))


def _failed(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _node(case: ET.Element) -> str:
    file = case.get("file", "")
    module = file.removesuffix(".py").replace("/", ".")
    classes = case.get("classname", "").removeprefix(module).split(".")
    return "::".join([file, *filter(None, classes), case.get("name", "")])
