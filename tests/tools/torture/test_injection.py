"""Fault injection refers to existing functions and stops the selected process."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib import import_module
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path

import pytest

from spark_kafka_sink.exactly_once.decision_rules import BatchVerdict, BatchWrite, batch_verdict
from spark_kafka_sink.exactly_once.scope_state import Done
from tools.torture.streams.injection.hooks import (
    PATCHES,
    POINTS,
    RAISE,
    Bug,
    Patch,
    Reporter,
    StepError,
    at_file,
    go_file,
)
from tools.torture.streams.scenarios import Step, Stop

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


@pytest.mark.parametrize(
    ("bug", "query_id", "planted"),
    [
        (Bug.MARKER_NOT_CHECKED, "q", BatchVerdict.WRITE),
        (Bug.QUERY_NOT_COMPARED, "other", BatchVerdict.SKIP),
    ],
)
def test_planted_verdict_about_a_written_batch(
    bug: Bug, query_id: str, planted: BatchVerdict
) -> None:
    state, write = Done(query_id="q", batch="3"), BatchWrite(query_id=query_id, batch="3")
    (patch,) = PATCHES[bug]
    assert patch.make(batch_verdict)(state, write) is planted
    assert batch_verdict(state, write) is not planted


@pytest.fixture
def run(tmp_path: Path) -> Path:
    stops = [
        Stop(step=Step.APPENDED, batch=1, hit=2),
        Stop(step=Step.APPENDED, batch=1, hit=2, after=0),
    ]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "steps.json").write_text(json.dumps([asdict(stop) for stop in stops]))
    return folder


def test_process_waits_at_its_stop(run: Path) -> None:
    reporter = Reporter(str(run))
    with reporter.scope("batchId", (), {"batchId": 0}):
        reporter.reached(Step.APPENDED)
        reporter.reached(Step.APPENDED)
    with ThreadPoolExecutor(1) as pool, reporter.scope("batchId", (), {"batchId": 1}):
        reporter.reached(Step.APPENDED)
        assert not at_file(run, 0).exists()
        waiting = pool.submit(reporter.reached, Step.APPENDED)
        while not at_file(run, 0).exists():
            assert not waiting.done()
        assert not at_file(run, 1).exists()
        word = run / "word"
        word.write_text(RAISE)
        word.rename(go_file(run, 0))
        with pytest.raises(StepError):
            waiting.result(60)


def test_second_process_waits_at_the_same_step(run: Path) -> None:
    at_file(run, 0).write_text("1")
    go_file(run, 1).write_text("go")
    reporter = Reporter(str(run))
    with reporter.scope("batchId", (), {"batchId": 1}):
        reporter.reached(Step.APPENDED)
        reporter.reached(Step.APPENDED)
    assert at_file(run, 1).exists()
    assert "appended #2" in (run / "trace.log").read_text()
