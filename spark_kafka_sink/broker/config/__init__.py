"""The settings of a broker, the configs of topics, and the releases of Kafka that it can emulate.

In reading order:

- `command_line_settings`: the settings that are numbers and texts, with their descriptions
- `broker_config`: all settings of a broker, and its listener addresses
- `topic_config`: topic configs, and the broker configs that provide their defaults
- `log_levels`: the levels of the broker's loggers
- `kafka_releases`: the API versions that each release of Kafka supports
"""
