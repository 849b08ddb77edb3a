"""From the sasl.* options to a `SaslConfig`.

Reading order: sasl_config, and login, which goes by mechanism; jaas (with jaas_tokens) reads
sasl.jaas.config, java_classes knows classes by name. What is special to a mechanism: kerberos,
msk_iam, and oauthbearer with issuer_tls and unsecured_token.
"""
