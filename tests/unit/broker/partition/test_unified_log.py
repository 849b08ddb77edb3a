"""Leader epochs of a log."""

from spark_kafka_sink.broker.partition.unified_log import LeaderEpochCache


def test_epochs_end_where_the_next_begins() -> None:
    history = LeaderEpochCache()
    for epoch, offset in ((0, 0), (2, 10), (3, 10), (5, 30), (4, 99)):
        history.assign(epoch, offset)
    assert history.starts == [(0, 0), (3, 10), (5, 30)]
    ends = {epoch: history.end_of(epoch, 50) for epoch in range(-1, 7)}
    assert ends == {
        -1: (-1, -1),
        0: (0, 10),
        1: (0, 10),
        2: (0, 10),
        3: (3, 30),
        4: (3, 30),
        5: (5, 50),
        6: (-1, -1),
    }
    history.truncate(30)
    assert history.latest == 3
