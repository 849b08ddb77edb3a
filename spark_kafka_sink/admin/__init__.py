"""Requests of a thread that waits for their answers: transactions, from any process.

For the driver, its planning and commit processes, and the command line; tasks produce without it.
To read in this order: call.py (one request), blocking_client.py (the thread's own network) with
client_pool.py; api_driver.py (many keys, each tried until it is answered) with lookups.py (which
broker is asked) and coordinators.py; transaction_admin.py with transaction_handlers.py,
transaction_states.py and denials.py.
"""
