"""The command line `kafkaprod`: entry starts it, main has the commands."""
