"""The largest values of Java's int and long, which many settings of Kafka have."""

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
