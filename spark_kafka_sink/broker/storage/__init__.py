"""Where batches lie: in memory or in segments on disk."""
