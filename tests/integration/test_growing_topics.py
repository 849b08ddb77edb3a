"""The number of partitions increases during a write."""

import time

from confluent_kafka.admin import NewPartitions

from spark_kafka_sink import EmbeddedBroker
from tests.support.producer_writes import rows, session
from tools.support.admin import Admin

DEADLINE_S = 60.0


def test_partitions_added_during_a_write_get_rows() -> None:
    with (
        EmbeddedBroker(topics={"t": 1}) as kafka,
        session(kafka.bootstrap_servers, metadata_max_age_ms=50) as producer,
    ):
        producer.append(rows("t", [b"first"]))
        producer.flush()
        admin = Admin(kafka.bootstrap_servers).client()
        [grown] = admin.create_partitions([NewPartitions("t", 3)]).values()
        grown.result(DEADLINE_S)
        deadline, written = time.monotonic() + DEADLINE_S, 1
        while not all(kafka.end_offsets("t")):
            assert time.monotonic() < deadline, kafka.end_offsets("t")
            keys = [b"%d" % number for number in range(30)]
            producer.append(rows("t", keys, keys=keys))
            producer.flush()
            written += len(keys)
        assert sum(kafka.end_offsets("t")) == written
