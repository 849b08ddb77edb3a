"""Brokers that die, hang, move, are old, or are none."""
