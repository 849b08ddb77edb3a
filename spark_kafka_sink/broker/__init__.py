"""The broker layer."""
