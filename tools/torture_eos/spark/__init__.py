"""Drivers as processes of their own, and what they run."""
