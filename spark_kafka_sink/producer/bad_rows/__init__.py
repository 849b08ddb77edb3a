"""Rows that cannot become records: they fail the task, or are dropped or written as dead letters.

In reading order:

- `row_error`: the reasons why a row cannot be written, and the search for them in a chunk
- `bad_row_counter`: the count of bad rows, and errors.maxRatio
- `dead_letter`: dead letters for rows that cannot be written
- `dead_letter_parts`: the parts of its row that a dead letter omits
"""
