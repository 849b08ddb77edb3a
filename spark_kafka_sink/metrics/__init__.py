"""What a running producer measures.

histogram holds times and sizes, recorder counts while the producer runs, producer_metrics is the
result, which adds up over tasks and travels in the delivery report.
"""
