"""What every layer uses: errors, configuration, the delivery report, the clock.

Configuration, in the order it is built: `options` (the table), `names`, `profiles`, `parsing`,
`rules`, `build`, `config` (the result). Report: `report` (collects), `delivery_report` (the
result), `partition_report`, `histogram`, `report_summary`, `report_file`.
"""
