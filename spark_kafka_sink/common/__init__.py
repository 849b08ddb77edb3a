"""Code that every layer uses; nothing here imports another layer.

In reading order:

- `errors`: all exception classes of the package
- `delivery_status`: the outcome of records, per partition
- `error_text`: parses an error back from the text of a Python traceback
- `text`: sizes and counts, quoted user input, typo hints, valid topic names
- `time_zones`: time zones with a fixed offset
- `secret`: masked option values, and detection of credentials in names and URIs
- `clock`: a clock that tests can replace, and a deadline for calls without a timeout
- `debug_log`: the events of kafka.debug, and warnings logged once per process
- `arguments`: checks of arguments to public functions
- `extras`: optional dependencies, and the supported PySpark releases
- `version`: the package's version
"""
