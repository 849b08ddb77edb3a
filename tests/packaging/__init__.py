"""The wheel in environments that have nothing else, beside a Spark that pip doesn't know."""
