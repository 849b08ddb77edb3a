"""How a client proves who it is and hides what it says: the options, read and checked."""
