"""A small Kafka broker in this process, so that tests and demos need nothing installed.

`embedded.py` holds `EmbeddedBroker`, which puts the rooms together. Reading order, as a request
goes: net (sockets, frames, dispatch), handlers (one file an API), cluster (topics, nodes, leaders),
coordinator (groups, transactions), partition (validation, log, producers), storage and redis (where
batches lie). faults stands between net and handlers when a test asks for it. Each room imports only
from those below it (`pyproject.toml`); the files beside them are used by several.
"""
