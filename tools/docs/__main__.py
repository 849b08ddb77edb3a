"""Update all generated blocks: `python -m tools.docs`."""

from collections.abc import Callable

from tools.docs import broker, errors, extras, format_types, options, reports, runs
from tools.docs.pages import write_block

GENERATED: dict[str, Callable[[], str]] = {
    "main-options": options.render_main_options,
    "sink-options": options.render_sink_options,
    "options": options.render_options,
    "security-options": options.render_security_options,
    "other-names": options.render_other_names,
    "profiles": options.render_profiles,
    "report-fields": reports.render_fields,
    "metric-fields": reports.render_metric_fields,
    "metric-names": reports.render_metric_names,
    "error-classes": errors.render_error_classes,
    "row-errors": errors.render_row_errors,
    "broker-errors": errors.render_broker_errors,
    "unclear-errors": errors.render_unclear_errors,
    "apis": broker.render_apis,
    "broker-options": broker.render_broker_options,
    "fault-effects": broker.render_fault_effects,
    "extras": extras.render_extras,
    "format-types": format_types.render_format_types,
    "model-searches": runs.render_searches,
    "planted-bugs": runs.render_planted_bugs,
    "torture-runs": runs.render_runs,
    "torture-brokers": runs.render_brokers,
}
"""The functions that render the blocks, by block name. Each block is on one page."""

MEASURED = (
    "matrix",
    "differences",
    "comparison",
    "figures",
)
"""Blocks that are only written by measurement commands."""


def main() -> None:
    """Update the blocks on all pages."""
    for name, render in GENERATED.items():
        write_block(name, render())


if __name__ == "__main__":
    main()
