"""Files that a job with secrets in its options leaves behind."""
