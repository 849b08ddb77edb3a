"""Bearer tokens: their sources, and the cache that the connections of a process share.

In reading order:

- `token`: a token with its expiry, and the base class `TokenSource`
- `json_values`: reads JSON objects of issuers and brokers
- `token_cache`: refreshes one token per login for all connections of a process
- `token_sources`: tokens from an option or a file, and unsecured tokens for development
- `client_credentials`: tokens from an OAuth 2.0 issuer (client credentials grant), with retries
- `token_endpoint`: one request for a token
- `issuer_https`: HTTPS to the issuer
- `secret_masking`: masks the secret in the issuer's responses
- `msk_iam`: tokens for Amazon MSK, signed with AWS credentials
"""
