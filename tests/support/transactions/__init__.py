"""Transaction scenarios that run step by step on any broker."""
