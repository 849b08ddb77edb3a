"""Topics that the driver creates: creation.py has the options, and what they come to."""
