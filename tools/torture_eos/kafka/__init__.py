"""The cluster of the runs, what is held back on the way to it, and its foreign readers."""
