"""The generated parts of README.md and docs/: `python -m tools.docs` writes them anew.

`pages` knows the pages and their marked blocks, `generated` which block comes from which function;
`options`, `report`, `broker` and `errors` turn code into tables. `links` and `commands`
read a page's references and shell examples. What is measured (client matrix, differences, figures)
is written by the commands in tools/compat and tools/benchmarks, through `pages` too.
"""
