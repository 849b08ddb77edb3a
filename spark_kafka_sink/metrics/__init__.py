"""What a running producer counts: histograms, the recorder, and the sums of a task."""
