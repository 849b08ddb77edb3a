"""Schemas from options, columns and a registry, on the driver.

In reading order:

- `configured_schemas`: schemas set by options or derived from columns
- `subjects`: the subjects of schemas
- `registry_client_settings`: address, login and TLS of the registry's client
- `registry`: register and look up schemas, on the driver
"""
