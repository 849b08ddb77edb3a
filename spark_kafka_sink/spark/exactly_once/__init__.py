"""Tasks, planning, commit and abort of deliveryGuarantee=exactly-once.

In reading order:

- `exactly_once_task`: tasks of deliveryGuarantee=exactly-once, which leave transactions open
- `transaction_timeouts`: the timeout of the tasks' transactions
- `exactly_once_driver`: planning, commit and abort of exactly-once writes
"""
