"""The options of a write: texts from the user become a frozen, validated `SinkConfig`.

Reading order: model, what comes out; builder, how: names (which options are known, ignored or
refused; known_keys and aliases have the lists), profiles, parser (text to value), rules
(contradictions). option and options are the table of all options, with enums, throttling,
dead_letters and exactly_once for those that belong together; addresses reads a single one.
"""
