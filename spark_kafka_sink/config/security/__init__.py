"""Parse and check the security options of a client: encryption (TLS) and login (SASL).

In reading order:

- `security_config`: the resulting `SecurityConfig`, with `TlsConfig` and `SaslConfig`
- `security_builder`: build it from the user's options
- `security_options`: the table of the security options
- `security_names`: aliases, ignored and rejected names, and the check for misplaced secrets
- `security_values`: typed access to the options that are set
- `tls`: build a `TlsConfig` from the `ssl.*` options
- `sasl`: build a `SaslConfig` from the `sasl.*` options: mechanism, login module and credentials
- `jaas`: parse `sasl.jaas.config`
- `java_classes`: recognize the Java classes in SASL options
- `oauthbearer`: the login of OAUTHBEARER: token endpoint, static token or unsecured token
"""
