"""`python -m spark_kafka_sink` runs the command `kafkaprod`."""

from spark_kafka_sink.cli.entry import run

if __name__ == "__main__":
    run()
