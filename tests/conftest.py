"""Brokers and topics for all tests, and the distribution of tests to processes.

`make test` runs the tests without the mark `deep`, `make test-deep` those with it. A skipped test
fails the run.
"""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests.support.security.secured_kafka import SecuredKafka
from tools.support.jars import OLD_KAFKA
from tools.support.kafka_cluster import KafkaCluster, ZooKeeperCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink import EmbeddedBroker

ROOT = Path(__file__).parents[1]
DEEP = (
    "tests/broker/admin/test_admin_clients.py",
    "tests/broker/cluster/test_reassignments.py",
    "tests/broker/faults/test_faults_with_producer.py",
    "tests/broker/operation/test_compare.py",
    "tests/broker/security/test_auth_like_kafka.py",
    "tests/broker/security/test_hostile_clients.py",
    "tests/broker/security/test_java_clients.py",
    "tests/broker/security/test_under_load.py",
    "tests/broker/storage/test_foreign_data.py",
    "tests/broker/storage/test_kill.py",
    "tests/e2e/test_examples.py",
    "tests/e2e/test_notebooks.py",
    "tests/integration/admin/test_compaction.py",
    "tests/integration/admin/test_acl_hints.py",
    "tests/integration/faults/test_faults.py",
    "tests/integration/faults/test_pressure.py",
    "tests/integration/identity",
    "tests/integration/security/test_rotation.py",
    "tests/integration/security/test_dead_letters.py",
    "tests/integration/security/test_delegation_tokens.py",
    "tests/integration/security/test_downgrades.py",
    "tests/integration/security/test_gssapi.py",
    "tests/integration/security/test_hostile_servers.py",
    "tests/integration/security/test_old_kafka.py",
    "tests/integration/security/test_reauthentication.py",
    "tests/integration/security/test_connection_failures.py",
    "tests/integration/security/test_acls.py",
    "tests/integration/test_memory.py",
    "tests/integration/test_mixed_bad_rows.py",
    "tests/integration/transactions/test_restarts.py",
    "tests/packaging",
    "tests/spark/secrets",
    "tests/spark/security",
    "tests/spark/test_cluster.py",
    "tests/spark/test_help.py",
    "tests/spark/test_large_rows.py",
    "tests/spark/test_old_kafka.py",
    "tests/spark/test_shipped_stores.py",
    "tests/torture",
)
"""Folders and files of `make test-deep`; individual tests use the mark."""
DEEP_FIXTURES = {"old_kafka", "old_kafkas", "real_kafka3"}
"""Fixtures of `make test-deep`: old releases of Kafka, and three brokers."""
GROUPS = {
    "Spark": ("tests/spark/",),
    "exactly once": ("tests/spark/exactly_once/",),
    "write methods": ("tests/spark/write_methods/",),
    "examples": ("tests/e2e/",),
    "secured Kafka": ("tests/integration/security/", "tests/spark/security/"),
    "old releases": (
        "tests/broker/admin/test_releases.py",
        "tests/integration/admin/",
        "tests/integration/exactly_once/test_end_txn_responses.py",
        "tests/integration/exactly_once/test_old_kafka.py",
        "tests/integration/exactly_once/test_spark_writers.py",
        "tests/integration/faults/test_old_kafka.py",
        "tests/integration/transactions/",
    ),
    "three brokers": (
        "tests/broker/cluster/test_reassignments.py",
        "tests/integration/faults/test_faults.py",
        "tests/integration/faults/test_pressure.py",
    ),
    "torture": ("tests/torture/",),
    "Kafka's classes": ("tests/golden/", "tests/broker/security/test_java_clients.py"),
}
"""Folders and files that share brokers, a Spark session or a JVM. Each group runs in one process.
Groups run in this order, before all other files. A file belongs to the last group that matches."""

_numbers = itertools.count(1)
# Worker processes of Spark and other subprocesses import `tests` and `tools`.
os.environ["PYTHONPATH"] = str(ROOT)
# JVMs of Spark compile quickly instead of optimizing.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")


def pytest_configure(config: pytest.Config) -> None:
    """Ignore a deprecation warning of kafka-python."""
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated")


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Runs all files of a group, or any other file, in one process of pytest-xdist."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _group(file) or file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Distribute tests by `GROUPS`."""
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark deep tests, and run the tests of groups first, as these take longest."""
    for item in items:
        if _uses(item, DEEP_FIXTURES) or any(
            item.path.is_relative_to(ROOT / name) for name in DEEP
        ):
            item.add_marker("deep")
    order = [*GROUPS, ""]
    items.sort(key=lambda item: order.index(_group(item.nodeid)))


def _group(nodeid: str) -> str:
    """Return the group of a test or file, or an empty string if it has none."""
    names = [name for name, paths in GROUPS.items() if nodeid.startswith(paths)]
    return names[-1] if names else ""


def _uses(item: pytest.Item, fixtures: set[str]) -> bool:
    """Return True if the test uses one of the fixtures, or if a parameter selects one."""
    if not isinstance(item, pytest.Function):
        return False
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    selected = {value for value in parameters if isinstance(value, str)}
    return bool(fixtures & {*item.fixturenames, *selected} or selected & OLD_KAFKA.keys())


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
    from spark_kafka_sink import EmbeddedBroker

    with EmbeddedBroker(auto_create_topics=True, retention_check_ms=24 * 3_600_000) as broker:
        yield broker


@pytest.fixture(params=["kafka", "embedded"])
def any_kafka(request: pytest.FixtureRequest) -> KafkaCluster | EmbeddedBroker:
    """Return a real Kafka and the embedded broker in turn."""
    name = "real_kafka" if request.param == "kafka" else "embedded_broker"
    broker: KafkaCluster | EmbeddedBroker = request.getfixturevalue(name)
    return broker


@pytest.fixture
def unique_topic() -> str:
    """Return a unique topic name; the topic is not created."""
    return f"topic-{os.getpid()}-{next(_numbers)}"
