"""The stages of a record in a worker, and the functions that they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.stages.clock import StageClock


class Thread(StrEnum):
    """Who is at work."""

    WRITER = "writer"
    SENDER = "sender"


@dataclass(frozen=True, slots=True)
class Stage:
    """`function` is where it is looked up: module, colon, name or class and name."""

    thread: Thread
    name: str
    function: str


_PACKAGE = "spark_kafka_sink."
READ = Stage(Thread.WRITER, "pyspark reads Arrow batches from the JVM", "")
WRITE = Stage(Thread.WRITER, "the rest of the writer", "")
STAGES = (
    READ,
    Stage(Thread.WRITER, "columns are read and checked", "spark.columns:read_rows"),
    Stage(Thread.WRITER, "sizes", "producer.append.validator:size_bounds"),
    Stage(
        Thread.WRITER,
        "partitions: murmur2 of the keys",
        "producer.append.partitioner:Partitioner.assign",
    ),
    Stage(Thread.WRITER, "plan: batches, order", "producer.append.chunk_encoder:plan"),
    Stage(
        Thread.WRITER,
        "encode: varints and views",
        "producer.append.chunk_encoder:encode_records",
    ),
    Stage(
        Thread.WRITER,
        "encode: all fields copied, one cast",
        "records.encoder:RowBuilder.join",
    ),
    Stage(
        Thread.WRITER,
        "appended to open batches",
        "producer.buffer.accumulator:Accumulator.append",
    ),
    WRITE,
    Stage(Thread.SENDER, "batches are drained", "producer.send.drainer:Drainer.drain"),
    Stage(Thread.SENDER, "requests", "producer.send.sender:produce_request"),
    Stage(
        Thread.SENDER,
        "checksum, in requests",
        "records.record_batch:BatchHeader.pack",
    ),
    Stage(
        Thread.SENDER,
        "bytes into the socket",
        "client.broker_connection:BrokerConnection.flush",
    ),
    Stage(Thread.SENDER, "wait for the network, responses", "client.network:Network.poll"),
    Stage(
        Thread.SENDER,
        "responses are acted on",
        "producer.send.response_handler:ResponseHandler.handle_response",
    ),
    Stage(Thread.SENDER, "the rest of the sender", "producer.send.sender:Sender.run_once"),
)


def place(stage: Stage) -> tuple[object, str]:
    """The module or class where a stage's function is looked up, and its name there."""
    module, path = stage.function.split(":")
    owner: object = import_module(_PACKAGE + module)
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    return owner, name


def install(clock: StageClock) -> None:
    """Have the functions of this process timed from now on."""
    for stage in STAGES:
        if stage.function:
            owner, name = place(stage)
            setattr(owner, name, clock.timed(stage.name, getattr(owner, name)))
