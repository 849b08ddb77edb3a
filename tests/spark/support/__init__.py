"""Shared helpers of the Spark tests: console output, sink, scenarios, child programs."""
