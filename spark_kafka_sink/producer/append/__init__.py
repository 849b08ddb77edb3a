"""The writer thread's stages: what a chunk of rows goes through on its way into the accumulator.

In this order: validator.py (with topic_metadata.py), admission.py, partitioner.py with the
partitioners it calls, sticky_partitioner.py, planner.py, chunk_encoder.py. chunk.py is what they
hand on.
"""
