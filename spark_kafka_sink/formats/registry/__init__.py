"""Schemas from options, columns and a registry, on the driver.

In reading order:

- `schemas_and_subjects`: schemas set by options or derived from columns, and their subjects
- `registry_client_settings`: address, login and TLS of the registry's client
- `registry`: register and look up schemas, on the driver
"""
