"""The reasons for which OpenSSL rejects a certificate."""

from enum import IntEnum


class VerifyError(IntEnum):
    """An error code of OpenSSL, ``X509_V_ERR_...`` in its header ``x509_vfy.h``."""

    UNABLE_TO_GET_ISSUER_CERT = 2
    CERT_NOT_YET_VALID = 9
    CERT_HAS_EXPIRED = 10
    DEPTH_ZERO_SELF_SIGNED_CERT = 18
    SELF_SIGNED_CERT_IN_CHAIN = 19
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY = 20
    UNABLE_TO_VERIFY_LEAF_SIGNATURE = 21
    INVALID_CA_OF_OPENSSL_1 = 24
    INVALID_PURPOSE = 26
    CERT_UNTRUSTED = 27
    HOSTNAME_MISMATCH = 62
    IP_ADDRESS_MISMATCH = 64
    EE_KEY_TOO_SMALL = 66
    CA_KEY_TOO_SMALL = 67
    CA_MD_TOO_WEAK = 68
    INVALID_CA = 79
