"""Functions of the package that programs call in addition to Spark's API."""
