"""What a session writes in a transaction, as foreign read_committed readers see it."""
