"""Fault injection refers to existing functions."""

from importlib import import_module
from inspect import Parameter, signature
from operator import attrgetter

import pytest

from tools.torture.streams.injection.hooks import (
    PATCHES,
    POINTS,
    Bug,
    Patch,
)

ALL_PATCHES = [patch for patches in PATCHES.values() for patch in patches]
NAMED = sorted(
    {(point.module, point.function) for point in POINTS}
    | {(patch.module, patch.function) for patch in ALL_PATCHES}
)


@pytest.mark.parametrize(("module", "function"), NAMED)
def test_wrapped_function_exists(module: str, function: str) -> None:
    assert callable(attrgetter(function)(import_module(module)))


def test_every_bug_has_a_patch() -> None:
    assert set(PATCHES) == set(Bug)


@pytest.mark.parametrize("patch", ALL_PATCHES, ids=lambda patch: patch.make.__name__)
def test_patch_has_the_signature_of_the_original(patch: Patch) -> None:
    right = attrgetter(patch.function)(import_module(patch.module))
    parameters = signature(right).parameters.values()
    named = {
        parameter.name: parameter
        for parameter in parameters
        if parameter.kind is Parameter.KEYWORD_ONLY
    }
    signature(patch.make(right)).bind(*list(parameters)[: len(parameters) - len(named)], **named)
