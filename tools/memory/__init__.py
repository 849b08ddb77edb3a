"""How much memory a task's Python worker needs, shown by writes of every kind: `make memory`."""
