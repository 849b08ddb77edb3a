"""A Kafka sink for PySpark that owns its producer: `df.write.format("kafkaprod")`.

Columns go in as Arrow and come out as Kafka RecordBatches; no Python code runs per record. To
read the code, follow a record from the DataFrame to its acknowledgement:

On the driver
 1. pyspark_kafkaprod.py         how Spark finds the format (at top level, beside this package)
 2. spark/datasource.py          one writer for a write or a micro-batch; a wrong option or column
                                 fails here, before any task runs
 3. base/config.py               options -> frozen SinkConfig; options.py has the table of them,
                                 build.py puts it together, rules.py settles contradictions
 4. spark/contract.py            the DataFrame's schema -> where key, value, topic ... stand

In a task's Python worker, on Spark's thread
 5. spark/writer.py              TaskWriter.run: borrow a session, append each batch, flush, report
 6. producer/session.py          one task's producer, on a client (client/client.py) that outlives
                                 it in producer/pool.py; topic_directory.py knows the topics
 7. spark/columns.py             Arrow batch -> Rows; casts, null topics and header keys refused
 8. producer/accumulator.py      reserve: waits here while buffer.memory is full (memory.py)
 9. producer/partitioner.py      row -> partition: as the row says, murmur2 of the key
                                 (records/murmur2.py), or undesignated: one queue per topic;
                                where those mix, sticky.py chooses here
10. producer/plan.py             row -> batch and offset delta, cut at batch.size; pure
11. records/encoder.py           all rows of a chunk -> one Arrow buffer of framed records, with
                                 tables of prefixes from varint.py, put together by row.py
12. producer/accumulator.py      append: slices of that buffer join the open batch of their
                                 partition (producer/batch.py); full and lingering batches close

On the codec thread
13. records/compression.py       a closed batch is compressed; without a codec this step is left out

On the sender thread
14. producer/sender.py           run_once: close, drain, send, poll, complete
15. producer/producer_id.py      the producer id, once; identity.py holds it and the sequences
16. producer/picker.py           which batches go into the next requests; those without a key get
                                 their partition here (designate.py draws it)
17. producer/lane.py             which batch of a partition goes next, and when it must wait
18. producer/requests.py         batches -> a Produce request; records/batch.py writes the header
                                 and CRC, protocol/produce.py the request, without copying records
19. client/network.py            one selector; link.py, connection.py, transport.py per broker
20. protocol/frame.py            bytes -> frames; codec.py frames -> kio's message classes
21. producer/outcomes.py         decide: error and facts -> action; answers.py carries it out
22. base/report.py               acknowledged batches are counted; flush returns on Spark's thread

Back on the driver
23. spark/writer.py              commit: the tasks' reports are added up (base/delivery_report.py),
                                 shown (report_summary.py) and written (report_file.py)
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
