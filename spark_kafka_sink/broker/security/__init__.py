"""Security of the broker: TLS certificates, and the server side of SASL.

These modules do no network I/O. They read and write only PEM and password files.

In reading order:

- `settings`: types of the security settings, and the resolution of secrets
- `server_tls`: TLS of the listeners: the server's certificate, and the principals of clients
- `certificate_authority`: a certificate authority for tests, which signs certificates
- `plain_and_scram`: PLAIN and SCRAM, and the users with the values that verify their passwords
- `oauthbearer`: OAUTHBEARER and the validation of bearer tokens
- `sasl_server`: the authentication states of a connection, and the interface of SASL mechanisms
"""
