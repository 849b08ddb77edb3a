"""spark-kafka-sink."""
