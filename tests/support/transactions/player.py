"""Execute transaction scenarios step by step on any broker.

A scenario is a text with one step per line: `command words -> response`. The docstring of the
method `do_<command>` lists the command's words; those in brackets can be omitted. The steps use one
topic with two partitions, one transactional id and one group; `p=` selects partitions, 0 by
default, and `v=` the version of the request.

Producer ids are named P0, P1, … in order of appearance, so `P0:3` is the first producer id with
epoch 3. An epoch without a producer id refers to the newest one: `write 3 p=1` writes a record with
epoch 3 of that producer to partition 1.

A response starts with the error code. Examples:

- `init -> 0 P0:0`: the producer id and epoch that InitProducerId returned
- `write 0 +3 p=0,1 -> 0 @0 0 @4`: error code and base offset of each partition, for three records
- `end commit 0 -> 0 P0:1`: the epoch for the next transaction, from version 5 on
- `read p=1 -> 0 4/3 0,1,C2,A3 aborted P0:0`: the high watermark 4 and the last stable offset 3; the
  offsets of two records, of a commit marker (C2) and of an abort marker (A3); then each aborted
  transaction as producer and first offset, or `none`
- `state -> 0 Ongoing P0:1 t0,t1`: the state, the producer, and the transaction's partitions
- `producers -> 0 P0:1 5 0 3`: for each producer of the partition, the last sequence number, the
  coordinator epoch, and the first offset of the open transaction, or -1
- `committed -> 0 7`: the group's committed offset
"""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.transactions.views import Step, Views
from tests.support.waiting import retry
from tools.support.raw_client import RawClient, batch

_TEXT = Path(__file__).with_name("transactions.txt").read_text(encoding="utf-8")
SCENARIOS = {
    name: steps.strip() for name, steps in (part.split("\n", 1) for part in _TEXT.split("== ")[1:])
}
"""The scenarios by name, with the responses of Kafka 4.3.1."""
LOADING = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
}


class Player(Views):
    """Executes the steps of a scenario."""

    def play(self, scenario: str) -> list[str]:
        """Execute all steps and return the lines with the received responses."""
        lines = (line.split("->")[0].strip() for line in scenario.strip().splitlines())
        return [f"{line} -> {self.step(line)}" for line in lines if line]

    def step(self, line: str) -> str:
        command, *words = line.split()
        flags = dict(word.split("=") for word in words if "=" in word)
        step = Step([word for word in words if "=" not in word], flags)
        return str(getattr(self, "do_" + command)(step))

    def do_init(self, step: Step) -> str:
        """`init [producer] [timeout=ms] [id=other] [v=]`"""
        values: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1}
        if step.words:
            values["producer_id"], values["producer_epoch"] = self.producer(step.words[0])
        timeout = timedelta(milliseconds=int(step.flags.get("timeout", 60_000)))
        name = step.flags.get("id", self.id)
        values |= {"transactional_id": None if name == "none" else name}
        version = int(step.flags.get("v", 5))

        def call() -> Any:
            self.client.call(ApiKey.FIND_COORDINATOR, 3, key=self.id, key_type=1)
            api = ApiKey.INIT_PRODUCER_ID
            return self.client.call(api, version, transaction_timeout=timeout, **values)

        response = retry(call, lambda response: response.error_code, LOADING)
        if name == self.id and response.error_code in {0, ErrorCode.concurrent_transactions}:
            self.settle()
        return (
            f"{int(response.error_code)} {self.name(response.producer_id, response.producer_epoch)}"
        )

    def do_write(self, step: Step) -> str:
        """`write producer [+count] [seq=] [p=0,1] [v=] [id=] [plain] [corrupt]`: error @offset."""
        producer_id, epoch = self.producer(step.words[0])
        partitions = [int(p) for p in step.flags.get("p", "0").split(",")]
        name = step.flags.get("id", self.id)
        response = self.client.call(
            ApiKey.PRODUCE,
            int(step.flags.get("v", 12)),
            transactional_id=None if name == "none" else name,
            acks=-1,
            timeout=timedelta(seconds=10),
            topic_data=[
                {
                    "name": self.topic,
                    "topic_id": self.topic_id,
                    "partition_data": [
                        {"index": p, "records": self._batch(step, (producer_id, epoch, p))}
                        for p in partitions
                    ],
                }
            ],
        )
        answers = {answer.index: answer for answer in response.responses[0].partition_responses}
        for partition in (p for p in partitions if answers[p].error_code == 0):
            key = (producer_id, epoch, partition)
            self.sequences[key] = int(step.flags.get("seq", self.sequences[key])) + _count(step)
        return " ".join(
            f"{int(answers[p].error_code)} @{answers[p].base_offset}" for p in partitions
        )

    def _batch(self, step: Step, key: tuple[int, int, int]) -> bytearray:
        producer_id, epoch, _ = key
        first = int(step.flags.get("seq", self.sequences[key]))
        data = batch(
            _count(step),
            producer=(producer_id, epoch, first),
            is_transactional="plain" not in step.words,
        )
        if "corrupt" in step.words:
            data[-1] ^= 0xFF
        return data

    def do_add(self, step: Step) -> str:
        """`add producer [p=0,1] [v=] [id=] [verify]`: an error per partition."""
        producer_id, epoch = self.producer(step.words[0])
        locations = [int(p) for p in step.flags.get("p", "0").split(",")]
        version, name = int(step.flags.get("v", 3)), step.flags.get("id", self.id)
        topics = [{"name": step.flags.get("topic", self.topic), "partitions": locations}]
        old = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": topics,
        }
        new = {
            "transactional_id": name,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "verify_only": "verify" in step.words,
            "topics": topics,
        }
        response = self.client.call(
            ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[new], **old
        )
        topic_results = (
            response.results_by_transaction[0].topic_results
            if version > 3
            else response.results_by_topic_v3_and_below
        )
        results = sorted(
            topic_results[0].results_by_partition, key=lambda partition: partition.partition_index
        )
        return " ".join(str(int(result.partition_error_code)) for result in results)

    def do_end(self, step: Step) -> str:
        """`end commit|abort producer [v=] [id=]`"""
        producer_id, epoch = self.producer(step.words[1])
        version = int(step.flags.get("v", 5))
        response = self.client.call(
            ApiKey.END_TXN,
            version,
            transactional_id=step.flags.get("id", self.id),
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=step.words[0] == "commit",
        )
        self.settle()
        if version < 5:
            return str(int(response.error_code))
        return (
            f"{int(response.error_code)} {self.name(response.producer_id, response.producer_epoch)}"
        )

    def do_marker(self, step: Step) -> str:
        """`marker commit|abort producer [coordinator=] [v=] [version=] [p=]`: WriteTxnMarkers"""
        producer_id, epoch = self.producer(step.words[1])
        partitions = [int(step.flags.get("p", 0))]
        marker = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": step.words[0] == "commit",
            "topics": [
                {"name": step.flags.get("topic", self.topic), "partition_indexes": partitions}
            ],
            "coordinator_epoch": int(step.flags.get("coordinator", 0)),
            "transaction_version": int(step.flags.get("version", 0)),
        }
        version = int(step.flags.get("v", 1))
        response = self.client.call(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
        return str(int(response.markers[0].topics[0].partitions[0].error_code))

    def do_addoffsets(self, step: Step) -> str:
        """`addoffsets producer [v=]`"""
        producer_id, epoch = self.producer(step.words[0])
        response = self.client.call(
            ApiKey.ADD_OFFSETS_TO_TXN,
            int(step.flags.get("v", 4)),
            transactional_id=step.flags.get("id", self.id),
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=self.group,
        )
        return str(int(response.error_code))

    def do_offset(self, step: Step) -> str:
        """`offset producer value [p=] [v=] [generation=] [member=] [id=] [meta=]`"""
        producer_id, epoch = self.producer(step.words[0])
        partition = {
            "partition_index": int(step.flags.get("p", 0)),
            "committed_offset": int(step.words[1]),
            "committed_leader_epoch": -1,
            "committed_metadata": "m" * int(step.flags.get("meta", 0)),
        }
        response = self.retried(
            ApiKey.TXN_OFFSET_COMMIT,
            int(step.flags.get("v", 5)),
            transactional_id=step.flags.get("id", self.id),
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=int(step.flags.get("generation", -1)),
            member_id=step.flags.get("member", ""),
            group_instance_id=None,
            topics=[{"name": step.flags.get("topic", self.topic), "partitions": [partition]}],
        )
        return str(int(response.topics[0].partitions[0].error_code))

    def do_commit(self, step: Step) -> str:
        """`commit value [p=]`: commit an offset outside of the transaction."""
        partition = {
            "partition_index": int(step.flags.get("p", 0)),
            "committed_offset": int(step.words[0]),
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        response = self.retried(
            ApiKey.OFFSET_COMMIT,
            8,
            group_id=self.group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": self.topic, "partitions": [partition]}],
        )
        return str(int(response.topics[0].partitions[0].error_code))

    def retried(self, api: ApiKey, version: int, **values: Any) -> Any:
        """Retry until Kafka has created the offsets topic for the first group."""

        def call() -> Any:
            self.client.call(ApiKey.FIND_COORDINATOR, 3, key=self.group, key_type=0)
            return self.client.call(api, version, **values)

        return retry(call, lambda response: response.topics[0].partitions[0].error_code, LOADING)

    def do_sleep(self, step: Step) -> str:
        """`sleep ms`"""
        time.sleep(int(step.words[0]) / 1000)
        return "0"

    def producer(self, word: str) -> tuple[int, int]:
        if ":" not in word:
            return self.producers[-1], int(word)
        name, epoch = word.split(":")
        known = name.startswith("P")
        return self.producers[int(name[1:])] if known else int(name), int(epoch)


def _count(step: Step) -> int:
    return next((int(word) for word in step.words if word.startswith("+")), 1)


def play(
    bootstrap_servers: str, steps: str, former: Player | None = None
) -> tuple[list[str], Player]:
    """Execute steps with the producers of `former`; return the responses and the player."""
    with RawClient(bootstrap_servers) as client:
        player = Player(client, "t")
        if former is not None:
            player.producers, player.sequences = former.producers, former.sequences
        played = player.play(steps)
    return [line.split(" -> ")[1] for line in played], player
