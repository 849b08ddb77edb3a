"""Where a record's time goes: CPU of each stage of a Spark write, measured inside its worker."""
