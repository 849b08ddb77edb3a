"""What every layer uses: errors, what became of a record, the clock, the debug log."""
