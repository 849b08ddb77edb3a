"""The client side of each SASL mechanism.

In reading order:

- `exchange`: `SaslExchange`, which runs the generator of a mechanism's messages, and checks of
  the broker's messages
- `login_libraries`: check that the libraries of a login are installed
- `factory`: create the exchange that the settings require
- `plain`: PLAIN
- `scram`: SCRAM-SHA-256 and SCRAM-SHA-512, with keys, messages and exchange
- `oauthbearer`: OAUTHBEARER and AWS_MSK_IAM; the tokens come from `security.tokens`
- `gssapi`: GSSAPI (Kerberos 5)
"""
