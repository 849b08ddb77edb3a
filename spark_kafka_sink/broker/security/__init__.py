"""Security of the broker: TLS certificates, and the server side of SASL.

These modules do no network I/O. They read and write only PEM and password files.

In reading order:

- `settings`: the security settings of a broker and their validation
- `certificates`: TLS of the listeners, a certificate authority for tests, and PEM files
- `plain_and_scram`: PLAIN and SCRAM, and the users with the values that verify their passwords
- `oauthbearer`: OAUTHBEARER and the validation of bearer tokens
- `sasl_server`: the authentication states of a connection, and the interface of SASL mechanisms
- `server_security`: certificates, users and deny rules of a broker, the methods of `EmbeddedBroker`
  that change them, and the matching client options
"""
