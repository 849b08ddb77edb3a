"""Code that all layers use. Nothing here imports a different layer.

In reading order:

- `java_integers`: the largest values of Java's int and long
- `errors`: all exception classes of the package
- `delivery_status`: the outcome of records, per partition
- `close_reason`: the reasons why a batch is closed
- `recreated_topics`: topics with acknowledged records, by name and id
- `text`: sizes and counts, shortened lists and external texts, and valid topic names
- `masking`: detection of secrets in texts, option names and URIs, and what is shown instead
- `similar_names`: the name that a user probably meant
- `histogram`: distributions of times and sizes that can be merged exactly
- `secret`: option values that are masked, or references to them
- `clock`: a clock that tests can replace
- `wakeup`: wakes a thread that waits in a selector
- `time_limit`: a time limit for calls that have no timeout of their own
- `time_zones`: UTC offsets of time zones with the names that Spark accepts, and the host's zone
- `debug_log`: the events of kafka.debug
- `logs`: warnings that are logged once, visible loggers, and checks without log lines
- `local_path`: local paths with ~ for the home directory
- `arguments`: checks of arguments to public functions, and the text of option values
- `optional_dependencies`: optional dependencies, and errors if one is missing
- `version`: the package's version
"""
