"""TLS contexts and SASL exchanges of a client.

This package does not connect to brokers. The package `client` opens connections and transmits the
bytes.

In reading order:

- `shipped_files`: find the files that Spark ships to a host
- `credentials`: resolve a login's references, and read secrets
- `changing_files`: detect files that change, and wait while they are being replaced
- `credentials_fingerprint`: detect replaced credentials
- `tls`: the `ssl.SSLContext` of a client, and descriptions of TLS failures
- `sasl`: the client side of each SASL mechanism
- `tokens`: bearer tokens for OAUTHBEARER and AWS_MSK_IAM: sources, cache and refresh
- `security_checks`: check stores, secrets and libraries on the driver before any task runs
- `acl_commands`: the principal of a client, and the commands that grant denied operations
- `acl_errors`: the errors for unauthorized requests
"""
