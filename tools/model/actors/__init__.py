"""The steps of each party: a driver's planning, its tasks, commit() and abort(); and the faults."""
