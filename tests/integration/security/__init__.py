"""Into a real secured Kafka: every door, every refusal, and what changes in mid-job."""
