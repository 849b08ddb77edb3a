"""Wraps the functions that are steps, as soon as their module is imported."""

from __future__ import annotations

import functools
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tools.torture_eos.seam.bugs import PATCHES, Bug, Patch
from tools.torture_eos.seam.points import POINTS, Point
from tools.torture_eos.seam.reporting import CONTROL, Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def install() -> None:
    """Begin, in a process that belongs to a run; in others do nothing."""
    if folder := os.environ.get(CONTROL):
        sys.meta_path.insert(0, _Finder(Reporter(folder)))


class _Finder(MetaPathFinder):
    """Finds the modules that hold steps as Python would, and has them changed once loaded."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._modules = {point.module for point in POINTS}
        self._modules |= {patch.module for patches in PATCHES.values() for patch in patches}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._reporter)
        return spec


class _Loader(Loader):
    """Loads as `original` does, then plants the bugs, and wraps what is a step."""

    def __init__(self, original: Loader, reporter: Reporter) -> None:
        self._original = original
        self._reporter = reporter

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._original.exec_module(module)
        for bug, patches in PATCHES.items():
            for patch in patches:
                if patch.module == module.__name__:
                    _replace(module, patch.function, self._planting(bug, patch))
        for point in POINTS:
            if point.module == module.__name__:
                _replace(module, point.function, self._stopping(point))

    def _stopping(self, point: Point) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda original: _stopping(original, point, self._reporter)

    def _planting(
        self, bug: Bug, patch: Patch
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda original: _planted(original, patch.make(original), bug, self._reporter)


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


def _planted(
    right: Callable[..., Any], wrong: Callable[..., Any], bug: Bug, reporter: Reporter
) -> Callable[..., Any]:
    @functools.wraps(right)
    def either(*args: Any, **kwargs: Any) -> Any:
        return (wrong if reporter.bug == bug else right)(*args, **kwargs)

    return either
