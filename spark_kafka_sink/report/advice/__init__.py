"""Advice on a finished report: which settings to change, how, and why.

In reading order:

- `advice`: one piece of advice
- `pipeline_facts`: the figures of a report on which advice is based
- `arrow_advice`: the rules about the size of Spark's Arrow batches
- `advice_rules`: the rules that derive advice from a finished report
"""
