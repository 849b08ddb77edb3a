"""From truststore, keystore and protocol options to a context of the ssl module.

1. `store_files` reads the files that options name, `store_format` says what they are;
2. `pem`, `private_keys`, `pkcs12` and `jks` (opened by `java_stores`) read what is in them;
3. `trust` and `identity` say whom to believe and who the client is, `ciphers` which suites;
4. `context` makes the context of these, whose connections are `client_ssl`'s, and `context_cache`
   shares it;
5. `failures` says in a sentence why a connection failed; of a broker's certificate (as
   `peer_certificate` describes it) `verification` does.
"""
