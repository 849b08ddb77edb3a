"""Fault injection that every Python process of a run loads at start; it stops at named steps.

`sitecustomize` is found through PYTHONPATH; nothing in the package refers to it.
"""
