"""The command line `kafkaprod`.

In reading order:

- `entry`: the entry point; missing libraries, and text that the locale cannot encode
- `main`: the root command, with which the commands are registered
- `option_fields`: options of commands as fields of dataclasses
- `kafka_options`: options of commands that connect to Kafka, and functions that report errors
- `doctor_command`: `kafkaprod doctor`
- `report_command`: `kafkaprod report`
- `read_command`: `kafkaprod read`
- `verify_command`: `kafkaprod verify`
- `transactions_command`: `kafkaprod transactions`
- `broker_command`: options of `kafkaprod broker`, and the process that runs the embedded broker
- `demo_command`: `kafkaprod demo`
- `demo`: the steps of the demo
"""
