"""What each API asks of its client's rights, and how an API is answered that may not do it all.

Reading order: requirements (which rights), filters (answers without what may not be seen),
authorized (requests on their way through their handlers).
"""
