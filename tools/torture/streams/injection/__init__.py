"""Fault injection that every Python process of a run loads at start; processes stop at named steps.

`sitecustomize` is loaded through PYTHONPATH; the package does not refer to it.
"""
