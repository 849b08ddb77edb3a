"""A session in a transaction of a fake cluster, and faults of the coordinator."""

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.harness.coordinator import CoordinatorFault
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import World

ID = "prefix-7-00ff-0-3"
SETTINGS = TransactionSettings(transactional_id=ID, timeout_ms=60_000)
FIND, INIT = ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID
ADD, END = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN
LOST = CoordinatorFault(lose=True)
UNDONE = CoordinatorFault(lose=True, error=ErrorCode.coordinator_load_in_progress)
UNAVAILABLE = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


def cluster(version: int, nodes: int = 1) -> FakeCluster:
    """Return a cluster whose coordinator has this `transaction.version`."""
    fake_cluster = FakeCluster(nodes, {"t": 4})
    fake_cluster.coordinator.version = version
    return fake_cluster


def is_v2(sim: World) -> bool:
    return sim.cluster.coordinator.version >= 2
