"""Export the metrics of a finished write to other systems.

In reading order:

- `exporters`: export a write's metrics to every system that the options specify
- `java_metrics`: convert a delivery report to the Java producer's metrics
- `prometheus`: export to a textfile or a Pushgateway, with prometheus-client
- `opentelemetry`: export with OpenTelemetry's API
"""
