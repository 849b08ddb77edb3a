"""From truststore, keystore and protocol options to a context of the ssl module.

1. `store_files` finds and reads the files that options name;
2. `pem`, `private_keys` read certificates and keys out of them;
3. `trust` and `identity` say whom to believe and who the client is;
4. `context` makes the SSLContext of these;
5. `failures` says in a sentence why a handshake failed.
"""
