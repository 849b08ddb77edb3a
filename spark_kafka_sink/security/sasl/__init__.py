"""The client side of each SASL mechanism."""
