"""What a job with secrets among its options leaves behind."""
