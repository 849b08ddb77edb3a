"""Create an `ssl.SSLContext` from truststore, keystore and protocol options.

In reading order:

- `pem`: PEM blocks and private keys
- `jks`: Java's own store format
- `store_formats`: detect a store's format, and read PKCS12 and JKS stores
- `stores`: read the client's certificate chain and private key from keystores, and the trusted
  certificates from truststores
- `cipher_suites`: names of cipher suites in Java and in OpenSSL
- `client_context`: create the context with its protocols and cipher suites
- `context_cache`: the contexts of a process
- `verify_error`: the reasons for which OpenSSL rejects a certificate
- `failures`: describe why a TLS connection failed, or why a broker's certificate was rejected
"""
