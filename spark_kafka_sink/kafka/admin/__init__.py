"""Blocking requests about topics and transactions.

The driver, its planning and commit processes and the command line use them; tasks only create
topics.

In reading order:

- `transaction_description`: the states of transactions and their producers
- `transaction_handlers`: the requests about transactions, and their results
- `transaction_admin`: starts, ends, describes, lists and fences transactions
- `topic_handlers`: the requests about topics and configs, and their results
- `topic_admin`: creates and describes topics, and reads topic and broker settings
"""
