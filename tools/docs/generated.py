"""Which block of the pages comes from which function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.docs.broker import render_apis, render_broker_options, render_fault_effects
from tools.docs.errors import (
    render_broker_errors,
    render_error_classes,
    render_row_errors,
    render_unclear_errors,
)
from tools.docs.extras import render_extras
from tools.docs.model import render_planted_bugs, render_searches
from tools.docs.options import (
    render_main_options,
    render_options,
    render_other_names,
    render_profiles,
    render_security_options,
    render_sink_options,
)
from tools.docs.report import render_fields, render_metric_fields, render_metric_names
from tools.docs.torture import render_brokers, render_runs

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
    "model-searches": render_searches,
    "planted-bugs": render_planted_bugs,
    "torture-runs": render_runs,
    "torture-brokers": render_brokers,
}
"""By the block's name; each is on one page."""

MEASURED = (
    "matrix",
    "differences",
    "figures",
    "scale-costs",
    "scale-estimates",
    "scale-limits",
    "scale-merges",
    "scale-cluster",
    "stages",
    "memory",
)
"""Blocks that only a run of a command can fill."""
