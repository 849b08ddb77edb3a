"""What lies between the clients and the brokers: proxies that read frames, and their faults."""
