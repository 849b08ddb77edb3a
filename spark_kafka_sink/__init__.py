"""A Kafka sink for PySpark that owns its producer: `df.write.format("kafkaprod")`.

Columns go in as Arrow and come out as Kafka RecordBatches; no Python code runs per record. To
read the code, follow a record from the DataFrame to its acknowledgement:

On the driver
 1. pyspark_kafkaprod.py            how Spark finds the format (beside this package)
 2. spark/datasource.py             one writer for a write or a micro-batch; a wrong option or
                                    column fails here, before any task runs
 3. config/model.py                 options -> frozen SinkConfig; options.py has the table of them,
                                    builder.py puts it together, rules.py settles contradictions
 4. spark/contract.py               the DataFrame's schema -> where key, value, topic ... stand

In a task's Python worker, on Spark's thread
 5. spark/writer.py                 TaskWriter.run: borrow a session, append batches, flush, report
 6. producer/session.py             one task's producer, on a client (client/client.py) that
                                    outlives it in producer/session_pool.py
 7. spark/columns.py                Arrow batch -> Rows; casts, null topics and header keys refused
 8. producer/buffer/accumulator.py  reserve: waits here while buffer.memory is full (buffer_pool.py)
 9. producer/append/partitioner.py  row -> partition: as the row says, murmur2 of the key
                                    (records/key_hashes.py), or unassigned: one queue per topic;
                                    where those mix, sticky_partitioner.py chooses here
10. producer/append/planner.py      row -> batch and offset delta, cut at batch.size; pure
11. records/encoder.py              all rows of a chunk -> one Arrow buffer of framed records,
                                    put together by row_builder.py
12. producer/buffer/accumulator.py  append: slices of that buffer join the open batch of their
                                    partition (batch.py); full and lingering batches close

On the codec thread
13. records/compression.py          a closed batch is compressed; left out without a codec

On the sender thread
14. producer/send/sender.py         run_once: close, drain, send, poll, complete
15. producer/send/init_producer_id.py  the producer id, once; producer/producer_state.py holds it
                                    and the sequences
16. producer/send/drainer.py        which batches go into the next requests; those without a key
                                    get their partition here (append/partition_choice.py)
17. producer/send/in_flight.py      which batch of a partition goes next, and when it must wait
18. producer/send/produce.py        batches -> a Produce request; records/record_batch.py writes
                                    header and CRC, protocol/produce.py the request, uncopied
19. client/network.py               one selector; broker_connection.py, connection.py, transport.py
20. protocol/frame.py               bytes -> frames; codec.py frames -> kio's message classes
21. producer/send/error_policy.py   decide: error and facts -> action; response_handler.py acts
22. report/builder.py               acknowledged batches are counted; flush returns

Back on the driver
23. spark/writer.py                 commit: the tasks' reports are added up
                                    (report/delivery_report.py), shown (summary.py) and written
                                    (storage.py)
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.broker import EmbeddedBroker

    __version__: str

__all__ = ["EmbeddedBroker", "__version__"]


def __getattr__(name: str) -> object:
    """Load what is rarely asked for when it is asked for: Spark's workers import this often."""
    if name == "__version__":
        return version("spark-kafka-sink")
    if name == "EmbeddedBroker":
        return import_module("spark_kafka_sink.broker").EmbeddedBroker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
