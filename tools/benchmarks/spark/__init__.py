"""Whole Spark writes, beside Spark's own sink and what people write by hand."""
