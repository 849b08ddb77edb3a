"""Create an `ssl.SSLContext` from truststore, keystore and protocol options.

In reading order:

- `jks`: Java's own store format
- `stores`: read the client's certificate chain and private key from keystores, and the trusted
  certificates from truststores (PEM, PKCS12, JKS)
- `cipher_suites`: names of cipher suites in Java and in OpenSSL
- `client_context`: create the context with its protocols and cipher suites
- `context_cache`: the contexts of a process
- `failures`: describe why a TLS connection failed, or why a broker's certificate was rejected
"""
