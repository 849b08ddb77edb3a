"""The options of a write: texts from the user become a frozen, validated `SinkConfig`.

Reading order: model, what comes out; builder, how: names (which options are known, ignored or
refused; known_keys and aliases have the lists), profiles, parser (text to value), rules
(contradictions). option and options are the table of all options, with enums, throttling and
dead_letters for those that belong together; addresses and extras read single ones.
"""
