"""Schemas from options, columns and a registry, on the driver.

In reading order:

- `configured_schemas`: schemas set by options or derived from columns
- `subjects`: the subjects of schemas
- `registry_client_settings`: address, login and TLS of the registry's client
- `registry_schemas`: a schema to register, and a schema in the registry
- `registry_requests`: requests to the registry, and the errors of failed ones
- `protobuf_registry`: Protobuf files as texts with references
- `registry`: register and look up schemas, on the driver
"""
