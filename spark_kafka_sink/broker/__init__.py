"""A small Kafka broker in this process, so that tests and demos need nothing installed.

`embedded.py` holds `EmbeddedBroker`, which wires the packages together. Reading order, as a request
goes: net (sockets, frames, dispatch), handlers (one file an API), cluster (topics, nodes, leaders),
coordinator (groups, transactions), partition (validation, log, producers), storage and redis (where
batches are stored). faults sits between net and handlers when a test asks for it. A package imports
only from those listed after it (`pyproject.toml`); the modules beside them are shared.
"""
