"""What is done where Spark plans a write, in a Python worker on the driver."""
