"""The options of a write: a table of them, how their text is read, and the rules between them."""
