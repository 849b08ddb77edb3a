"""What a program calls beside Spark's own API."""
