"""One partition: what may be written to it, its log, producers and transactions."""
