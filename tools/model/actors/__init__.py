"""Steps of each actor: a driver's planning, its tasks, commit() and abort(); and the faults."""
