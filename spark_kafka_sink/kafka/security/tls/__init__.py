"""Create an `ssl.SSLContext` from truststore, keystore and protocol options.

In reading order:

- `jks`: Java's own store format
- `stores`: read the client's certificate chain and private key from keystores, and the trusted
  certificates from truststores (PEM, PKCS12, JKS)
- `client_context`: create the context with its protocols and cipher suites, and cache it per
  process
- `failures`: describe why a TLS connection failed, or why a broker's certificate was rejected
"""
