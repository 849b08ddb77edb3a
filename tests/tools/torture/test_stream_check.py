"""The checker accepts a correct topic and reports each kind of error."""

from dataclasses import replace

import pytest

from tools.torture.streams.check import Found, findings
from tools.torture.streams.plan import Source

SOURCE = Source(
    seed=1,
    rows=(6, 0, 3, 3),
    files_per_batch=2,
    partitions=2,
    value_size=5,
    explicit=True,
    dead=frozenset({4}),
)
DEAD = [Found(0, 0, 4)]
CORRECT = (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11)


def topic_of(*numbers: int) -> list[Found]:
    return [
        Found(SOURCE.place(number), location, number) for location, number in enumerate(numbers)
    ]


def test_correct_topic_is_accepted() -> None:
    result = findings(SOURCE, topic_of(*CORRECT), DEAD, once=True)
    assert (result.lost, result.doubled, result.wrong) == (0, 0, ())


def test_files_of_a_batch_can_be_interleaved() -> None:
    assert not findings(SOURCE, topic_of(0, 1, 2, 3, 5, 6, 9, 7, 10, 8, 11), DEAD, once=True).wrong


@pytest.mark.parametrize(
    ("numbers", "dead", "sign"),
    [
        (CORRECT[:-1], DEAD, "topic: LOST 1 (11)"),
        ((*CORRECT, 11), DEAD, "topic: DOUBLED 1 (11)"),
        ((*CORRECT, 12), DEAD, "unexpected records: 1 (12)"),
        ((*CORRECT, 4), DEAD, "unexpected records: 1 (4)"),
        (CORRECT, [], "dead letters: LOST 1 (4)"),
        (CORRECT, [*DEAD, *DEAD], "dead letters: DOUBLED 1 (4)"),
        ((1, 0, *CORRECT[2:]), DEAD, "file 0: 0 comes after 1"),
        ((6, *CORRECT[:5], *CORRECT[6:]), DEAD, "micro-batches are mixed"),
    ],
)
def test_each_kind_of_incorrect_topic_is_rejected(
    numbers: tuple[int, ...], dead: list[Found], sign: str
) -> None:
    violations = findings(SOURCE, topic_of(*numbers), dead, once=True).wrong
    assert any(sign in text for text in violations), violations


def test_record_in_another_partition() -> None:
    topic = topic_of(*CORRECT)
    topic[0] = replace(topic[0], partition=1)
    assert "in the wrong partition: 1 (0)" in findings(SOURCE, topic, DEAD, once=True).wrong[0]


def test_at_least_once_counts_duplicates() -> None:
    result = findings(SOURCE, topic_of(*CORRECT, *CORRECT), [*DEAD, *DEAD], once=False)
    assert (result.lost, result.doubled, result.wrong) == (0, len(CORRECT) + 1, ())
