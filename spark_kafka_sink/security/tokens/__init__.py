"""Bearer tokens: where they come from, and how a worker process shares them.

1. `token`: a token and when it expires; `json_text` reads what it and its issuer say;
2. `token_source`: what all sources have in common: `static_token`, `unsecured_token`,
   `client_credentials` (with `token_endpoint`, one request to an issuer, `token_http`, how it is
   sent, and `retry`, when to ask again) and `msk_iam`;
3. `refresh`: when a token is renewed;
4. `cache`: one token for all connections of a process.
"""
