"""Create an `ssl.SSLContext` from truststore, keystore and protocol options.

In reading order:

- `jks`: Java's own store format
- `stores`: read trust stores and key stores (PEM, PKCS12, JKS): the client's certificate chain and
  private key, and the certificates it trusts
- `context`: create the context with its protocol versions and cipher suites, and cache it per
  process
- `failures`: describe why a TLS connection failed
- `verification`: describe why a broker's certificate was rejected
"""
