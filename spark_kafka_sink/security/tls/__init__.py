"""Create an `ssl.SSLContext` from truststore, keystore and protocol options.

In reading order:

- `stores`: read trust store and key store files: PEM, PKCS12 and JKS
- `identity`: the client's certificate chain and private key, and the certificates it trusts
- `context`: create the context with its protocol versions and cipher suites, and cache it per
  process
- `failures`: describe why a TLS connection failed
- `verification`: describe why a broker's certificate was rejected
"""
