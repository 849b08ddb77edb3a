"""The spark layer."""
