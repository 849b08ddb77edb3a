"""Export the metrics of a finished write to other systems.

In reading order:

- `exporters`: export a write's metrics to every system that the options name
- `java_names`: a delivery report under the metric names of the Java producer
- `prometheus`: export to a textfile or a Pushgateway, with prometheus-client
- `opentelemetry`: export with OpenTelemetry's API
"""
