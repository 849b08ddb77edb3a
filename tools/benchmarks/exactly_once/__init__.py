"""What deliveryGuarantee=exactly-once costs: the same writes with it and without it, in turns.

Reading order: figures (what is measured, and what it comes to), spark_child, ending, measuring,
tables.
"""
