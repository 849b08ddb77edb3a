"""How a client proves who it is and hides what it says: the options, read and checked.

Reading order: model, what comes out; options, the table; names, what else there is; builder, and
for its two parts tls and sasl. login goes by mechanism: jaas (with jaas_tokens) reads
sasl.jaas.config, kerberos, msk_iam and oauthbearer (with issuer_tls and unsecured_token) what is
special to them. values is typed access to what was given, java_classes knows classes by name.
"""
