"""Fault injection in the Python processes of a run, which stop at named steps.

Every Python process of a run loads `sitecustomize` on startup, because it is in PYTHONPATH.
"""
