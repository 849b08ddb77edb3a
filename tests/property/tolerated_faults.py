"""Faults of the fake cluster after which a session can still deliver everything."""

from hypothesis import strategies as st

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.support.harness.fake import FakeCluster, Fault

PASSES = 10**6
"""Bytes that no batch has."""
PASSING = [2, 3, 5, 6, 7, 9, 13, 19, 20, 56, 72, 74, 100, 103]
passing = st.one_of(
    st.none(),
    st.builds(Fault, error=st.sampled_from(PASSING)),
    st.builds(Fault, lose=st.booleans(), hold=st.booleans(), throttle_ms=st.sampled_from([0, 40])),
    st.just(Fault(lose=True, error=ErrorCode.none)),
    st.builds(Fault, error=st.sampled_from([7, 20]), append=st.just(True)),
)


def limit(cluster: FakeCluster, size: int) -> None:
    for log in cluster.logs.values():
        log.max_batch = size
