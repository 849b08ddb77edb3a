"""From truststore, keystore and protocol options to a context of the ssl module."""
