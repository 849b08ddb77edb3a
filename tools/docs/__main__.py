"""Update all generated blocks: `python -m tools.docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.docs.pages import write_block
from tools.docs.reference import (
    render_apis,
    render_broker_errors,
    render_broker_options,
    render_error_classes,
    render_extras,
    render_fault_effects,
    render_fields,
    render_main_options,
    render_metric_fields,
    render_metric_names,
    render_options,
    render_other_names,
    render_profiles,
    render_row_errors,
    render_security_options,
    render_sink_options,
    render_unclear_errors,
)
from tools.docs.runs import render_brokers, render_planted_bugs, render_runs, render_searches
from tools.docs.types import render_format_types

if TYPE_CHECKING:
    from collections.abc import Callable


GENERATED: dict[str, Callable[[], str]] = {
    "main-options": render_main_options,
    "sink-options": render_sink_options,
    "options": render_options,
    "security-options": render_security_options,
    "other-names": render_other_names,
    "profiles": render_profiles,
    "report-fields": render_fields,
    "metric-fields": render_metric_fields,
    "metric-names": render_metric_names,
    "error-classes": render_error_classes,
    "row-errors": render_row_errors,
    "broker-errors": render_broker_errors,
    "unclear-errors": render_unclear_errors,
    "apis": render_apis,
    "broker-options": render_broker_options,
    "fault-effects": render_fault_effects,
    "extras": render_extras,
    "format-types": render_format_types,
    "model-searches": render_searches,
    "planted-bugs": render_planted_bugs,
    "torture-runs": render_runs,
    "torture-brokers": render_brokers,
}
"""The functions that render the blocks, by block name. Each block is on one page."""

MEASURED = (
    "matrix",
    "differences",
    "comparison",
    "figures",
    "scale-costs",
    "scale-estimates",
    "scale-limits",
    "scale-merges",
    "scale-cluster",
    "stages",
    "memory",
)
"""Blocks that are only written by measurement commands."""


def main() -> None:
    """Update the blocks on all pages."""
    for name, render in GENERATED.items():
        write_block(name, render())


if __name__ == "__main__":
    main()
