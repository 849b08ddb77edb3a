"""Checks of `make`: `needs` of the machine, and `sizes` of functions and package docstrings."""
