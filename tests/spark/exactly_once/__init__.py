"""Writes that happen exactly once, as a foreign read_committed reader finds them."""
