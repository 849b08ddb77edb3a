"""kcat (librdkafka) with the embedded broker."""

import subprocess

from spark_kafka_sink import EmbeddedBroker

LINES = [f"k{i}:v{i}" for i in range(100)]


def kcat(kafka: EmbeddedBroker, *arguments: str, text: str | None = None) -> str:
    done = subprocess.run(
        ["kcat", "-b", kafka.bootstrap_servers, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_group_continues_at_committed_offset(kafka: EmbeddedBroker) -> None:
    group = ["-X", "auto.offset.reset=earliest", "-e", "-q", "-G", "g", "t"]
    kcat(kafka, "-P", "-t", "t", text="\n".join(LINES))
    assert sorted(kcat(kafka, *group).splitlines()) == sorted(LINES)
    assert kcat(kafka, *group) == ""
    kcat(kafka, "-P", "-t", "t", text="one more")
    assert kcat(kafka, *group) == "one more\n"


def test_offsets_by_time(kafka: EmbeddedBroker) -> None:
    kcat(kafka, "-P", "-t", "t", "-p", "0", text="\n".join(LINES))
    assert kcat(kafka, "-Q", "-t", "t:0:-1").split()[-1] == "100"
    assert kcat(kafka, "-Q", "-t", "t:0:-2").split()[-1] == "0"
    assert kcat(kafka, "-Q", "-t", "t:0:1").split()[-1] == "0"
