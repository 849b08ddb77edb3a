"""What requests name and where answers have errors, for what looks at every API alike.

The log of refused requests, faults, and authorization use it.
"""
