"""Security of the broker: TLS certificates, the server side of SASL, and deny rules (ACLs).

No module here does network I/O; only PEM and password files are read and written.

In reading order:

- `settings`: the security settings of a broker, validated
- `certificates`: TLS of the listeners, a certificate authority for tests, and PEM files
- `plain_and_scram`: PLAIN and SCRAM, the users and their password verifiers; no password is stored
- `oauthbearer`: OAUTHBEARER and the validation of bearer tokens
- `authenticator`: the authentication states of one connection; the interface of SASL mechanisms
- `acl`: deny rules, the broker's only ACLs
- `server_security`: certificates, users and deny rules of a broker, the methods of `EmbeddedBroker`
  that change them, and the matching client options
"""
