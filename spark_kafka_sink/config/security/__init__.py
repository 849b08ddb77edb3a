"""How a client proves who it is and hides what it says: the options, read and checked.

Reading order: model, what comes out; options, the table; names, what else there is; builder, and
for its two parts tls and the room sasl. values is typed access to what was given.
"""
