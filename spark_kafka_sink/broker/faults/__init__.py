"""Injected faults, which make requests fail, lose their responses or change the cluster.

In reading order:

- `fault`: the faults that users inject
- `fault_text`: the text form of a fault
- `armed_faults`: the faults of a running cluster, and when requests trigger them
- `injector`: the effects of faults on requests
"""
