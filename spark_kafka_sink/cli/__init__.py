"""The command line: kafkaprod."""
