"""Wraps the functions that are steps, as soon as their module is imported."""

from __future__ import annotations

import functools
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tools.torture_eos.seam.bugs import BUG, PATCHES, Patch
from tools.torture_eos.seam.points import POINTS, Point
from tools.torture_eos.seam.reporting import CONTROL, Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def install() -> None:
    """Begin, in a process that belongs to a run; in others do nothing."""
    if folder := os.environ.get(CONTROL):
        sys.meta_path.insert(0, _Finder(Reporter(folder), os.environ.get(BUG)))


class _Finder(MetaPathFinder):
    """Finds the modules that hold steps as Python would, and has them changed once loaded."""

    def __init__(self, reporter: Reporter, bug: str | None) -> None:
        self._reporter = reporter
        self._patches = PATCHES[bug] if bug else ()
        self._modules = {point.module for point in POINTS}
        self._modules |= {patch.module for patch in self._patches}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._reporter, self._patches)
        return spec


class _Loader(Loader):
    """Loads as `original` does, then plants the bug's patches, and wraps."""

    def __init__(self, original: Loader, reporter: Reporter, patches: Sequence[Patch]) -> None:
        self._original = original
        self._reporter = reporter
        self._patches = patches

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._original.exec_module(module)
        for patch in self._patches:
            if patch.module == module.__name__:
                _replace(module, patch.function, patch.make)
        for point in POINTS:
            if point.module == module.__name__:
                _replace(module, point.function, self._stopping(point))

    def _stopping(self, point: Point) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda original: _stopping(original, point, self._reporter)


def _replace(
    module: ModuleType, function: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    owner: Any = module
    *path, name = function.split(".")
    for part in path:
        owner = getattr(owner, part)
    setattr(owner, name, make(getattr(owner, name)))


def _stopping(original: Callable[..., Any], point: Point, reporter: Reporter) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def told() -> str:
            return "" if point.told is None else str(attrgetter(point.told)(args[0]))

        with reporter.scope(point.scope, args, kwargs):
            if point.before is not None:
                reporter.reached(point.before, told())
            result = original(*args, **kwargs)
            if point.after is not None:
                reporter.reached(point.after, told())
            return result

    return wrapped
