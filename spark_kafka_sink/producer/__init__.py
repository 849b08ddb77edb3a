"""One task's producer: rows go in, acknowledged batches and a delivery report come out.

To read in this order: session.py, which lists the stages of a chunk, and context.py, which its
parts share; rows.py; then packages append (the writer thread's stages), buffer (what the threads
share), send (the sender thread) and transactions (what it asks of a transaction coordinator).
producer_state.py is the producer id and the sequences,
row_errors.py, bad_rows.py and dead_letter.py are for rows that can't be written, events.py is for
kafka.debug, and session_pool.py keeps clients and producer ids from task to task.
"""
