"""Fault injection that every Python process of a run loads at start; it stops at named steps.

`sitecustomize` is loaded through PYTHONPATH; the package does not refer to it.
"""
