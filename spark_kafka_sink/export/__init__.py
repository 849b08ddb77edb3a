"""A report for other systems: the names of Java, Prometheus, OpenTelemetry."""
