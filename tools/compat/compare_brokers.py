"""Compare the embedded broker with a real Kafka: `python -m tools.compat.compare_brokers`.

All differences are printed, and written to docs/compatibility.md unless `--dry` is given. If there
are arguments, only scenarios whose names contain an argument are run, and the page is not updated.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from spark_kafka_sink import EmbeddedBroker
from tools.compat.scenarios.admin import (
    cluster_scenarios,
    config_scenarios,
    placement_scenarios,
    topic_scenarios,
)
from tools.compat.scenarios.comparison import differing
from tools.compat.scenarios.groups import group_scenarios
from tools.compat.scenarios.produce import produce_scenarios, read_scenarios
from tools.compat.scenarios.scenario import Scenario, keep_everything, run
from tools.docs.pages import table, write_block
from tools.support.kafka_cluster import KafkaCluster

SHOWN = 70
SETTINGS = {"auto.create.topics.enable": "false"}
"""Settings of the real Kafka, to match the embedded broker's defaults."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs between the brokers."""

    scenario: str
    path: str
    kafka: str
    ours: str


def scenarios() -> list[Scenario]:
    """Return all scenarios."""
    return [
        *produce_scenarios(),
        *read_scenarios(),
        *topic_scenarios(),
        *cluster_scenarios(),
        *config_scenarios(),
        *group_scenarios(),
        *placement_scenarios(),
    ]


def compare(name: str, kafka: dict[str, Any], ours: dict[str, Any]) -> Iterator[Difference]:
    """Yield the differences in one scenario."""
    for path, theirs, mine in differing(kafka, ours):
        yield Difference(name, path, _value_text(theirs), _value_text(mine))


def _value_text(value: Any) -> str:
    """Return a value as text; for a log, return the offsets and record counts of its batches."""
    if isinstance(value, list) and value and isinstance(value[0], dict) and "crc" in value[0]:
        return "batches " + ", ".join(f"{b['base_offset']}+{b['count']}" for b in value)
    return str(value)


def differences(chosen: Iterable[Scenario], kafka: str, ours: str) -> list[Difference]:
    """Run all scenarios on both brokers and return the differences."""
    all_differences: list[Difference] = []
    for number, scenario in enumerate(chosen):
        theirs, mine = run(scenario, kafka, number), run(scenario, ours, number)
        some = list(compare(scenario.name, theirs, mine))
        for difference in some:
            print(
                f"{difference.scenario}: {difference.path}: "
                f"Kafka {difference.kafka}, ours {difference.ours}"
            )
        all_differences += some
    return all_differences


def markdown(differing: list[Difference], count: int) -> str:
    """Return a Markdown table of the differences; equal differences share a row."""
    rows: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for difference in differing:
        rows[difference.path, difference.kafka, difference.ours].append(difference.scenario)
    heading = ("scenarios", "value", "Kafka", "embedded")
    lines = (
        (_scenario_names(names), f"`{path}`", _cell(kafka), _cell(ours))
        for (path, kafka, ours), names in rows.items()
    )
    return (
        f"{count} scenarios on Kafka 4.3.1 and on the embedded broker; "
        f"{len(differing)} values differ."
        f"\n\n{table(heading, lines)}"
    )


def _scenario_names(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - 2} more" if len(unique) > 2 else ""
    return "; ".join(unique[:2]) + more


def _cell(value: str) -> str:
    return value[:SHOWN] + (" ..." if len(value) > SHOWN else "") or "empty"


def main() -> None:
    """Run the scenarios, print the differences, and update the page."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    chosen = [s for s in scenarios() if not words or any(word in s.name for word in words)]
    with KafkaCluster(config=SETTINGS) as kafka, EmbeddedBroker() as ours:
        keep_everything(ours.bootstrap_servers)
        differing = differences(chosen, kafka.bootstrap_servers, ours.bootstrap_servers)
    print(f"{len(chosen)} scenarios, {len(differing)} differences")
    if not words and "--dry" not in sys.argv:
        write_block("differences", markdown(differing, len(chosen)))


if __name__ == "__main__":
    main()
