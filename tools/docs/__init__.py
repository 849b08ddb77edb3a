"""The generated parts of README.md and docs/: `python -m tools.docs` writes them.

- `pages`: the pages, their marked blocks, and Markdown tables
- `reference`: options, profiles, extras, errors, the embedded broker, the delivery report
- `types`: Spark's types in each format
- `runs`: the searches of the model, and the torture runs

Measurements (client matrix, differences, figures) are written by the commands in tools/compat and
tools/benchmarks.
"""
