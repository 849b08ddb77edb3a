"""The generated parts of README.md and docs/: `python -m tools.docs` writes them.

- `pages`: the pages, their generated blocks, and Markdown tables
- `options`: options, profiles, and names that are ignored or rejected
- `extras`: the extras of the package
- `errors`: error classes, reasons of bad rows, and reactions to errors of brokers
- `broker`: the embedded broker's APIs, options and faults
- `reports`: the fields of the delivery report, and metrics
- `format_types`: Spark's types in each format
- `runs`: the tables of the model's searches and of the torture runs

Results of measurements (client matrix, differences, figures) are written by the commands in
tools/compat and tools/benchmarks.
"""
