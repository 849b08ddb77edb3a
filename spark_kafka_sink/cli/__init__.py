"""The command line `kafkaprod`.

In reading order:

- `entry`: the entry point, which prints the extra to install if libraries are missing
- `main`: the root command, and the commands `broker`, `report` and `demo`
- `kafka_options`: options of commands that connect to Kafka, and how commands report errors
- `doctor`: `kafkaprod doctor`
- `read`: `kafkaprod read` and `kafkaprod verify`
- `transactions`: `kafkaprod transactions`
- `broker`: options of `kafkaprod broker`; run the embedded broker as a process
"""
