"""Consumer groups and transactions, as their coordinators run them."""
