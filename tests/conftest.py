"""Brokers and topics for all tests, and the choice and distribution of tests.

`make test` (`-m "not deep"`) runs the folders in `QUICK` and single tests with the mark `quick`.
All other tests, and those with the mark `deep`, run with `make test-all`. A skipped test fails the
run.
"""

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from spark_kafka_sink import EmbeddedBroker
from tests.support.security.secured_kafka import SecuredKafka
from tools.support.jars import OLD_KAFKA
from tools.support.java import QUICK_JVM
from tools.support.kafka_cluster import AnyKafka, KafkaCluster, ZooKeeperCluster

ROOT = Path(__file__).parents[1]
QUICK = ("tests/unit/", "tests/property/", "tests/golden/", "tests/tools/torture/")
"""Folders of `make test`."""
PARTS = {
    "broker": ("tests/broker/",),
    "producer": ("tests/integration/",),
    "spark": ("tests/spark/",),
    "exactly_once": (
        "tests/integration/exactly_once/",
        "tests/integration/transactions/",
        "tests/spark/exactly_once/",
        "tests/torture/",
    ),
    "security": (
        "tests/broker/security/",
        "tests/integration/security/",
        "tests/spark/secrets/",
        "tests/spark/security/",
    ),
    "packaging": ("tests/e2e/", "tests/packaging/"),
    "unit": ("tests/tools/", *QUICK),
}
"""Marks of deep tests by folder (`make test-all PART=...`). The last part that matches counts."""
GROUPS = {
    "Spark": ("tests/spark/",),
    "exactly once": ("tests/spark/exactly_once/",),
    "write methods": ("tests/spark/write_methods/",),
    "examples": ("tests/e2e/",),
    "real registry": ("tests/integration/formats/apicurio/",),
    "secured Kafka": ("tests/integration/security/", "tests/spark/security/"),
    "old releases": (
        "tests/broker/admin/test_releases.py",
        "tests/integration/admin/",
        "tests/integration/exactly_once/test_atomic.py",
        "tests/integration/exactly_once/test_old_kafka.py",
        "tests/integration/exactly_once/test_spark_writers.py",
        "tests/integration/faults/test_old_kafka.py",
        "tests/integration/transactions/",
    ),
}
"""Folders and files that share brokers, a Spark session or a JVM. Each group runs in one process.
Groups run in this order, before all other files."""

_numbers = itertools.count(1)
# Worker processes of Spark and other subprocesses import `tests` and `tools`.
os.environ["PYTHONPATH"] = str(ROOT)
# JVMs of Spark compile quickly instead of optimizing.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, " ".join(QUICK_JVM))


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks of parts, and ignore a deprecation warning of kafka-python."""
    for part in PARTS:
        config.addinivalue_line("markers", f"{part}: a part of `make test-all`")
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files with tests of `make test`; others need packages of `make install-all`."""
    if config.option.markexpr != "not deep":
        return None
    files = collection_path.rglob("*.py") if collection_path.is_dir() else [collection_path]
    return None if any(map(_has_quick_tests, files)) else True


@cache
def _has_quick_tests(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    if file.relative_to(ROOT).as_posix().startswith(QUICK):
        return "pytestmark = pytest.mark.deep" not in text
    return "pytest.mark.quick" in text


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Runs all files of a group, or any other file, in one process of pytest-xdist."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _last_match(file, GROUPS) or file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Distribute tests by `GROUPS`."""
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark deep tests and their part, and run the tests of groups first, as these take longest."""
    for item in items:
        if not (item.nodeid.startswith(QUICK) or item.get_closest_marker("quick")):
            item.add_marker("deep")
        item.add_marker(_last_match(item.nodeid, PARTS))
    order = [*GROUPS, ""]
    items.sort(key=lambda item: order.index(_last_match(item.nodeid, GROUPS)))


def _last_match(nodeid: str, paths_by_name: Mapping[str, tuple[str, ...]]) -> str:
    """Return the last name with a path of the test, or an empty string."""
    names = [name for name, paths in paths_by_name.items() if nodeid.startswith(paths)]
    return names[-1] if names else ""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


# The duration of an example depends on the load of the machine.
settings.register_profile("spark-kafka-sink", deadline=None)
settings.load_profile("spark-kafka-sink")


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[KafkaCluster]:
    """Run one node of a real Apache Kafka, shared by the session."""
    with KafkaCluster() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def real_kafka3() -> Iterator[KafkaCluster]:
    """Run three nodes of a real Apache Kafka; tests must restart nodes that they stop."""
    with KafkaCluster(nodes=3) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def old_kafkas() -> Iterator[Mapping[str, ZooKeeperCluster]]:
    """Run two nodes of each older release; tests must restart nodes that they stop."""
    clusters = {release: ZooKeeperCluster(release) for release in OLD_KAFKA}
    with ExitStack() as stack:
        for cluster in clusters.values():
            stack.callback(cluster.close)
            cluster.start()
        for cluster in clusters.values():
            cluster.wait_ready()
        yield clusters


@pytest.fixture(params=OLD_KAFKA)
def old_kafka(
    request: pytest.FixtureRequest, old_kafkas: Mapping[str, ZooKeeperCluster]
) -> ZooKeeperCluster:
    """Return a cluster of each older release in turn."""
    return old_kafkas[request.param]


@pytest.fixture(scope="session")
def secured_kafka() -> Iterator[SecuredKafka]:
    """Run one node of a real Apache Kafka with authentication and all listeners."""
    with SecuredKafka() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """Run the embedded broker, shared by the session. It keeps records with old timestamps."""
    with EmbeddedBroker(auto_create_topics=True, retention_check_ms=24 * 3_600_000) as broker:
        yield broker


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.deep), "embedded"])
def any_kafka(request: pytest.FixtureRequest) -> AnyKafka:
    """Return a real Kafka and the embedded broker in turn; `make test` uses only the latter."""
    name = "real_kafka" if request.param == "kafka" else "embedded_broker"
    broker: AnyKafka = request.getfixturevalue(name)
    return broker


@pytest.fixture
def unique_topic() -> str:
    """Return a unique topic name; the topic is not created."""
    return f"topic-{os.getpid()}-{next(_numbers)}"
