"""The command line `kafkaprod`: main has the commands, broker_options those of the broker."""
