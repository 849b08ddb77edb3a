"""The client's thread: switching between the loops of sessions."""

from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
from spark_kafka_sink.kafka.client.client import Client
from tests.support.harness.offline import config
from tests.support.waiting import wait_until


class Loop:
    """Counts its turns; can crash."""

    def __init__(self, crash_at: int = 1 << 30) -> None:
        self.turns = 0
        self.crash_at = crash_at
        self.error: BaseException | None = None

    def run_once(self) -> None:
        self.turns += 1
        if self.turns == self.crash_at:
            raise RuntimeError("boom")

    @property
    def broker_meters(self) -> BrokerMeters:
        return BrokerMeters()

    def backlog(self, _node_id: int, _now: float) -> str:
        return ""

    def handle_crash(self, error: BaseException) -> None:
        self.error = error


def test_thread_switches_loops_immediately_and_survives_a_crash() -> None:
    client = Client(config(bootstrap_servers="127.0.0.1:40000"))
    first, second, third = Loop(), Loop(crash_at=3), Loop()
    client.attach(first)
    client.detach()
    turns = first.turns
    client.attach(second)
    assert first.turns == turns
    wait_until(lambda: second.error is not None)
    assert str(second.error) == "boom"
    client.attach(third)
    wait_until(lambda: third.turns >= 3)
    client.close()
    assert second.turns == 3
