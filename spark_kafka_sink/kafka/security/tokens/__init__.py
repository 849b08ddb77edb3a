"""Bearer tokens: their sources, and the cache that the connections of a process share.

In reading order:

- `token`: a token with its expiry, and the protocol `TokenSource`
- `token_cache`: refreshes one token per login for all connections of a process
- `token_sources`: tokens from an option or a file, and unsecured tokens for development
- `token_endpoint`: tokens from an OAuth 2.0 issuer (client credentials grant), with retries, and
  the masking of secrets in its responses
- `msk_iam`: tokens for Amazon MSK, signed with AWS credentials
"""
