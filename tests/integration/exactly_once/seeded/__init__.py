"""Seeded runs of real tasks and drivers with faults of an embedded broker, in one process."""
