"""What tools and tests share."""
