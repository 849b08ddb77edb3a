"""Checks for `make`: `needs` checks the machine, `sizes` checks functions and docstrings."""
