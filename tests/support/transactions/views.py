"""The read steps of transaction scenarios: records, offsets and states."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from spark_kafka_sink.kafka.protocol.messages import read_response
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tests.support.waiting import wait_until, wait_until_equal
from tools.support.raw_client import RawClient


@dataclass(frozen=True, slots=True)
class Step:
    """The words and flags of a step."""

    words: list[str]
    flags: dict[str, str]


class Views:
    """Read steps for one transactional id and one topic with two partitions."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.id = f"id-{topic}"
        self.group = f"group-{topic}"
        self.topic_id = (
            client.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics[0].topic_id
        )
        self.producers: list[int] = []
        self.sequences: dict[tuple[int, int, int], int] = defaultdict(int)

    def name(self, producer_id: int, epoch: int) -> str:
        if producer_id < 0:
            return f"none:{epoch}"
        if producer_id not in self.producers:
            self.producers.append(producer_id)
        return f"P{self.producers.index(producer_id)}:{epoch}"

    def settle(self) -> None:
        """Wait until the markers of a completing transaction are written."""
        wait_until(lambda: not self.described().transaction_state.startswith("Prepare"))

    def described(self, name: str | None = None) -> Any:
        ids = [self.id if name is None else name]
        self.client.send(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=ids)
        frame = self.client.next_frame()  # kio cannot parse a start of -1.
        _, response = read_response(response_type(ApiKey.DESCRIBE_TRANSACTIONS, 0), frame)
        return response.transaction_states[0]

    def do_committed(self, step: Step) -> str:
        """`committed [stable] [p=]`: error and offset."""
        topic = {"name": self.topic, "partition_indexes": [int(step.flags.get("p", 0))]}
        response = self.client.call(
            ApiKey.OFFSET_FETCH,
            7,
            group_id=self.group,
            topics=[topic],
            require_stable="stable" in step.words,
        )
        partition = response.topics[0].partitions[0]
        return f"{int(partition.error_code)} {partition.committed_offset}"

    def fetched(self, offset: int, partition: int, *, committed: bool) -> Any:
        requested = {
            "partition": partition,
            "fetch_offset": offset,
            "current_leader_epoch": -1,
            "partition_max_bytes": 1 << 20,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
        }
        response = self.client.call(
            ApiKey.FETCH,
            12,
            max_wait=timedelta(0),
            min_bytes=1,
            max_bytes=1 << 20,
            replica_id=-1,
            session_epoch=-1,
            isolation_level=int(committed),
            topics=[{"topic": self.topic, "partitions": [requested]}],
        )
        return response.responses[0].partitions[0]

    def do_read(self, step: Step) -> str:
        """`read [from] [p=] [uncommitted]`: high watermark, stable end, offsets, aborted."""
        start = next((int(word) for word in step.words if word.isdecimal()), 0)
        fetched = self.fetched(
            start, int(step.flags.get("p", 0)), committed="uncommitted" not in step.words
        )
        aborted = fetched.aborted_transactions
        listed = (
            "-"
            if aborted is None
            else ",".join(self.name(a.producer_id, a.first_offset) for a in aborted) or "none"
        )
        ends = f"{fetched.high_watermark}/{fetched.last_stable_offset}"
        return f"{int(fetched.error_code)} {ends} {contents(fetched.records)} aborted {listed}"

    def do_latest(self, step: Step) -> str:
        """`latest [committed] [at=time]`"""
        requested = {
            "partition_index": 0,
            "timestamp": int(step.flags.get("at", -1)),
            "current_leader_epoch": -1,
        }
        response = self.client.call(
            ApiKey.LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=int("committed" in step.words),
            topics=[{"name": self.topic, "partitions": [requested]}],
        )
        partition = response.topics[0].partitions[0]
        return f"{int(partition.error_code)} {partition.offset}"

    def do_state(self, step: Step) -> str:
        """`state [id=]`: state from DescribeTransactions."""
        transaction = self.described(
            "" if step.flags.get("id") == "empty" else step.flags.get("id")
        )
        if transaction.error_code:
            return str(int(transaction.error_code))
        locations = [
            f"{self.short(t.topic)}{p}" for t in transaction.topics for p in sorted(t.partitions)
        ]
        who = self.name(transaction.producer_id, transaction.producer_epoch)
        return f"0 {transaction.transaction_state} {who} {','.join(sorted(locations)) or 'none'}"

    def short(self, topic: str) -> str:
        return "t" if topic == self.topic else topic.strip("_")

    def do_producers(self, step: Step) -> str:
        """`producers [p=]`: producer, last sequence, coordinator epoch, start of transaction."""
        topic = {"name": self.topic, "partition_indexes": [int(step.flags.get("p", 0))]}
        response = self.client.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[topic])
        partition = response.topics[0].partitions[0]
        active = [
            f"{self.name(p.producer_id, p.producer_epoch)} {p.last_sequence} "
            f"{p.coordinator_epoch} {p.current_txn_start_offset}"
            for p in partition.active_producers
        ]
        return f"{int(partition.error_code)} {'; '.join(sorted(active)) or 'none'}"

    def do_list(self, step: Step) -> str:
        """`list [states=a,b] [pattern=] [producer=] [duration=]`: for this transactional id."""
        states = step.flags["states"].split(",") if "states" in step.flags else []
        ids = (
            [self.producers[-1] if step.flags["producer"] == "mine" else 7]
            if "producer" in step.flags
            else []
        )
        response = self.client.call(
            ApiKey.LIST_TRANSACTIONS,
            int(step.flags.get("v", 2)),
            state_filters=states,
            producer_id_filters=ids,
            duration_filter=int(step.flags.get("duration", -1)),
            transactional_id_pattern=step.flags.get("pattern", "").replace("ID", self.id) or None,
        )
        mine = [t for t in response.transaction_states if t.transactional_id == self.id]
        unknown = ",".join(response.unknown_state_filters) or "none"
        state = f"{mine[0].transaction_state}" if mine else "nothing"
        return f"{int(response.error_code)} {state} unknown {unknown}"

    def do_until(self, step: Step) -> str:
        """`until state`: wait until the coordinator reports the state."""
        wait_until_equal(lambda: self.described().transaction_state, step.words[0])
        return step.words[0]


def contents(records: Any) -> str:
    """Return offsets of records, with C and A for markers: `0,1,C2`."""
    data, texts = bytes(records or b""), []
    while len(data) > 61:
        header = BatchHeader.parse(data)
        for record in decode_batch(data[: header.size]):
            kind = ("A", "C")[record.key[3]] if header.is_control and record.key else ""
            texts.append(f"{kind}{record.offset}")
        data = data[header.size :]
    return ",".join(texts) or "nothing"
