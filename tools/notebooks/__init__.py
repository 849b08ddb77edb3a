"""The notebooks and what is saved of them: `python -m tools.notebooks` runs and saves them anew.

`running` executes one in a fresh kernel, `saved` takes out of its outputs what belongs to the
machine, `shape` is what of them is the same in every run.
"""
