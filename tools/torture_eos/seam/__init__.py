"""What every Python process of a run loads at its start: it can be stopped at named steps.

`sitecustomize` is found by PYTHONPATH, and nothing in the package knows of it.
"""
