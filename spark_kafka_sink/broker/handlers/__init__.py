"""One file an API, named after it; its docstring says which versions and behaviours it serves.

To add an API: a file here with a function ``handle(context: RequestContext) -> Answer``, which
returns the response's fields by their names in the newest version, and ``HANDLER`` with its key and
versions; its name among the imports and in `_MODULES` of `registry`; its row in
`spark_kafka_sink.broker.releases`. ApiVersions announces what is listed.

The other files are shared: request_context (what a handler gets and returns), request_lookups
(topics by name and id), membership, authorized_operations, config_resources, logger_levels;
delayed_produce and produce_data belong to Produce.
"""
