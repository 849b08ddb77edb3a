"""What waits between writer and sender: batches, their memory, and who may use how much of it."""
