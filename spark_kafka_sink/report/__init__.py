"""The delivery report: what was written where, by whom, how well, and where the report is kept."""
