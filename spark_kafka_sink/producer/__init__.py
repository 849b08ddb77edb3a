"""The producer layer."""
