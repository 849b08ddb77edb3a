"""What measures, tortures, compares and checks; not shipped."""
