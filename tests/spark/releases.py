"""The tests that do not apply to an older PySpark release, with the reasons.

All other tests of `tests/spark` run on each supported release: `make test-spark RELEASE=3.5`.
"""

from __future__ import annotations

import re

import pyspark

_FORMAT = "is about the format or SQL tables, which need Python data sources (4.0)"
_LOG = "is about the log of the driver's workers; write logs in the calling process"
_TYPES = "needs VARIANT or collations, which came with 4.0"
_QUERY = "needs the query's name or id in a failed write, which foreachBatch does not pass"
_PROTOCOL = "is about micro-batches that Spark plans and commits through the format"
_ALL_COLUMNS = "names some of a table's columns: INSERT requires all of them until 4.1"
_REGISTERED = "4.0 rejects the registration of a data source that it has discovered"
_SECRETS = "is about options in the plans of the format"
_ARROW = "needs createDataFrame of an Arrow table, which came with 4.0"
_SECONDS = "to_json of 3.5 drops the seconds of offsets before 1900; docs/formats.md says so"
_BYTES = "needs a limit of the bytes in an Arrow batch, which came with 4.0"
_PIPELINES = "needs declarative pipelines, which came with 4.1"
_METHODS = r"write_methods/test_write_methods\.py::"
NOT_APPLICABLE: dict[str, dict[str, str]] = {
    "3.5": {
        r"test_sql\.py": _FORMAT,
        r"test_secrets\.py::test_(pickled|references)": _FORMAT,
        r"test_bad_input\.py::test_unreachable_servers": _LOG,
        r"test_columns\.py::test_uppercase_key_column_is_logged": _LOG,
        r"test_columns\.py.*(variant|collated)": _TYPES,
        r"test_report\.py::test_(console_summary|unwritable_report)": _LOG,
        r"test_streaming\.py::test_report_folder_becomes_invalid": _LOG,
        r"test_help\.py": _FORMAT,
        r"test_formats_json\.py::test_(generated|format_of_common|numbers_have)": _ARROW,
        r"test_formats_json\.py::test_json_follows_the_session.*(PST|IST)": _SECONDS,
        r"test_large_rows\.py::test_shipped": _BYTES,
        r"test_preflight\.py::test_error_is_the_start": _FORMAT,
        r"test_other_jvm\.py": _FORMAT,
        r"test_streaming\.py::test_(available_now_with_multiple|failed_batch_is)": _QUERY,
        r"exactly_once/test_stream\.py": _PROTOCOL,
        r"exactly_once/test_batch\.py::test_sql_inserts": _FORMAT,
        r"driver/test_(worker_start|threads|restricted_system)\.py": _FORMAT,
        r"driver/test_spark_errors\.py": _FORMAT,
        r"driver/test_warm_up\.py::test_workers_of_write_are": _FORMAT,
        r"driver/test_worker_python\.py.*\[register": _FORMAT,
        r"driver/test_missing_dependency\.py.*\[format": _FORMAT,
        r"secrets/test_leaked_secrets\.py": _SECRETS,
        r"write_methods/test_(real_kafka|concurrent_streams)\.py": _FORMAT,
        rf"{_METHODS}test_writes.*\[(?!(write|write-(?!to-).*|stream-micro-batches.*)\])": _FORMAT,
        rf"{_METHODS}test_secured": _FORMAT,
    },
    "4.0": {
        r"test_sql\.py::test_(insert_(some|query|over)|strings_need|invalid_opt)": _ALL_COLUMNS,
        r"test_sql\.py::test_explicit_registration": _REGISTERED,
        rf"{_METHODS}test_writes.*\[sql-insert(-overwrite)?\]": _ALL_COLUMNS,
        rf"{_METHODS}test_writes.*\[pipeline\]": _PIPELINES,
    },
    "4.1": {},
}
"""Reasons by release and by a pattern of the test's id, without the folder tests/spark."""
_FOLDER = "tests/spark/"


def reason(nodeid: str) -> str | None:
    """Return the reason why a test does not apply to the installed release, or None."""
    patterns = NOT_APPLICABLE.get(pyspark.__version__[:3], {})
    name = nodeid.removeprefix(_FOLDER)
    return next((text for pattern, text in patterns.items() if re.match(pattern, name)), None)
