"""All methods to write a frame, in a classic session and with Spark Connect."""
