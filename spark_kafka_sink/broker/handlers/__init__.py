"""The broker/handlers layer."""
