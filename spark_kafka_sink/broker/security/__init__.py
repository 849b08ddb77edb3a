"""Who may connect and what they may do: certificates, credentials, SASL's server side.

Reading order: settings (what a user asked for), certificates and server_tls, then credentials, the
mechanisms (plain), authenticator (the states of one connection), and server_security, which puts
them together. Without I/O but for the files that OpenSSL reads.
"""
