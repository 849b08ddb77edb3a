"""The options of each write in `foreachBatch`."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark import cloudpickle

from spark_kafka_sink import ConfigError, micro_batch_writer

SERVERS = {"kafka.bootstrap.servers": "h:9092", "topic": "t"}


class Frame:
    """A DataFrame that records the calls of a write."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    @property
    def write(self) -> Frame:
        return self

    def format(self, name: str) -> Frame:
        self.told.append(name)
        return self

    def options(self, **options: str) -> Frame:
        self.told.append(options)
        return self

    def mode(self, name: str) -> Frame:
        self.told.append(name)
        return self

    def save(self) -> None:
        self.told.append("saved")


def calls_of(batch: int, **options: str) -> dict[str, str]:
    frame: Any = Frame()
    micro_batch_writer({**SERVERS, **options})(frame, batch)
    name, given, mode, saved = frame.told
    assert (name, mode, saved) == ("kafkaprod", "append", "saved")
    assert SERVERS.items() <= given.items()
    return {name: given[name] for name in given.keys() - SERVERS.keys()}


def test_each_batch_is_appended() -> None:
    assert calls_of(3) == {}


@pytest.mark.parametrize(
    ("path", "found"),
    [("reports", "reports/batch-3.json"), ("a/{batchId}.json", "a/3.json")],
)
def test_each_batch_has_a_report_as_in_a_stream(path: str, found: str) -> None:
    assert calls_of(3, reportPath=path) == {"reportpath": found}


def test_exactly_once_needs_a_batch_id() -> None:
    assert calls_of(3, deliveryGuarantee="exactly-once", transactionalIdPrefix="p") == {
        "deliveryguarantee": "exactly-once",
        "transactionalidprefix": "p",
        "batchid": "3",
    }


def test_batch_id_option_of_the_user_is_rejected() -> None:
    with pytest.raises(ConfigError, match="batchId"):
        micro_batch_writer({"batchId": "3"})


def test_spark_connect_can_serialize_the_writer() -> None:
    frame: Any = Frame()
    sent = cloudpickle.dumps(micro_batch_writer(SERVERS))  # type: ignore[no-untyped-call]
    pickle.loads(sent)(frame, 0)
    assert frame.told[-1] == "saved"
