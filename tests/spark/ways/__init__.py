"""Every way to write a frame, in a classic session and over Spark Connect."""
