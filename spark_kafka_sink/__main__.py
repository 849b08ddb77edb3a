"""`python -m spark_kafka_sink` is the command `kafkaprod`."""

from spark_kafka_sink.cli.entry import run

if __name__ == "__main__":
    run()
