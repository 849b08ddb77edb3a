"""What a running producer measures: recorder counts, producer_metrics adds up, in histograms."""
