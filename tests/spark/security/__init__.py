"""The sink in Spark with a real secured Kafka, using the options of Spark's built-in sink."""
