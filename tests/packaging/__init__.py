"""The wheel in minimal environments, and with a Spark distribution unknown to pip."""
