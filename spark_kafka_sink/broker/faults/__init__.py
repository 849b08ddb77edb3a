"""Faults on demand: what goes wrong, for which requests, and how often.

Reading order: fault (what a fault is and which requests it matches), parser (one from text), faults
(those that are armed), injector (applies them to requests, responses and the cluster) with
request_partitions.
"""
