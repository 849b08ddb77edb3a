"""The generated parts of README.md and docs/: `python -m tools.docs` writes them.

- `pages`: the pages, their generated blocks, and Markdown tables
- `reference`: options, profiles, extras, errors, the embedded broker, the delivery report, and the
  types of Spark in each format
- `runs`: the tables of the model's searches and of the torture runs

Results of measurements (client matrix, differences, figures) are written by the commands in
tools/compat and tools/benchmarks.
"""
