"""Update all generated blocks: `python -m tools.docs`."""

from collections.abc import Callable

from tools.docs import reference, runs
from tools.docs.pages import write_block

GENERATED: dict[str, Callable[[], str]] = {
    "main-options": reference.render_main_options,
    "sink-options": reference.render_sink_options,
    "options": reference.render_options,
    "security-options": reference.render_security_options,
    "other-names": reference.render_other_names,
    "profiles": reference.render_profiles,
    "report-fields": reference.render_fields,
    "metric-fields": reference.render_metric_fields,
    "metric-names": reference.render_metric_names,
    "error-classes": reference.render_error_classes,
    "row-errors": reference.render_row_errors,
    "broker-errors": reference.render_broker_errors,
    "unclear-errors": reference.render_unclear_errors,
    "apis": reference.render_apis,
    "broker-options": reference.render_broker_options,
    "fault-effects": reference.render_fault_effects,
    "extras": reference.render_extras,
    "format-types": reference.render_format_types,
    "model-searches": runs.render_searches,
    "planted-bugs": runs.render_planted_bugs,
    "torture-runs": runs.render_runs,
    "torture-brokers": runs.render_brokers,
}
"""The functions that render the blocks, by block name. Each block is on one page."""

MEASURED = (
    "matrix",
    "differences",
    "figures",
)
"""Blocks that are only written by measurement commands."""


def main() -> None:
    """Update the blocks on all pages."""
    for name, render in GENERATED.items():
        write_block(name, render())


if __name__ == "__main__":
    main()
