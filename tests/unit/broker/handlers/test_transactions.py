"""The scenarios of transactions.txt, whose responses are Kafka's, without sockets."""

import pytest

from tests.support.transactions.player import SCENARIOS, Player
from tests.unit.broker.handlers.in_process import InProcessClient


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_gives_kafkas_responses(scenario: str) -> None:
    client = InProcessClient(topics={"t": 2})
    assert Player(client, "t").play(scenario) == scenario.splitlines()
