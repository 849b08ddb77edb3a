"""Security of the broker: TLS certificates, the server side of SASL, and denials (ACLs).

No module here does network I/O; only PEM and password files are read and written.

In reading order:

- `settings`: the security settings of a broker, validated
- `certificates`: a certificate authority for tests, and PEM files
- `credentials`: the users and their password verifiers; no password is stored
- `mechanism`: the interface of SASL mechanisms, and PLAIN
- `scram`: SCRAM-SHA-256 and SCRAM-SHA-512
- `oauthbearer`: OAUTHBEARER and the validation of bearer tokens
- `authenticator`: the authentication states of one connection
- `acl`: denials, the broker's only ACLs
- `server_security`: TLS contexts, users and denials put together for the listeners
- `controls`: the security methods of `EmbeddedBroker`, and the matching client options
"""
