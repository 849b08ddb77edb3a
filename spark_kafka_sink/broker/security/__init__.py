"""Security of the broker: TLS certificates, and the server side of SASL.

These modules do no network I/O. They read and write only PEM and password files.

In reading order:

- `settings`: types of the security settings, and the resolution of secrets
- `certificates`: TLS of the listeners, a certificate authority for tests, and PEM files
- `plain_and_scram`: PLAIN and SCRAM, and the users with the values that verify their passwords
- `oauthbearer`: OAUTHBEARER and the validation of bearer tokens
- `sasl_server`: the authentication states of a connection, and the interface of SASL mechanisms
"""
