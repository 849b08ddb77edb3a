"""Injected faults, which make requests fail, lose their responses or change the cluster.

In reading order:

- `fault`: the faults that users inject, and their text form
- `injector`: the effects of faults on requests
"""
