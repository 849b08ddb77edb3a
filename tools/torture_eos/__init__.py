"""Seeded faults at chosen steps of a stream into a real Kafka, and what a reader finds after them.

Read `plans` (what can happen, and what a seed makes of it), `run` and `director` (how it is carried
out), `check` (what must hold). `seam` is what the processes of a run load to be stopped at a step.
"""
