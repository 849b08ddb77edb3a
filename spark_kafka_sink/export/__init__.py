"""A finished write's metrics for other systems.

java_names gives a delivery report under the Java producer's metric names; prometheus and
opentelemetry hand that on, each with a library of its own; exporters chooses among them.
"""
