"""The writer thread's way: admission, partition, plan; ends in the accumulator."""
