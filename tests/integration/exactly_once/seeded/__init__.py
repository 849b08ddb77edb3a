"""Seeded runs of real tasks and drivers on an embedded broker that fails, in one process."""
