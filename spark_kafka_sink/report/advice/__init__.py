"""Advice, and the rules on how Spark hands its rows over."""
