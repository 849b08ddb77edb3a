"""What `make` runs: needs of the machine, sizes of the code, and the phases of the test run."""
