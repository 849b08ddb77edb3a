"""The client side of each SASL mechanism.

1. `exchange`: what all of them have in common; `factory` makes the one that the settings ask for;
2. `plain`; `scram`, with its messages in `scram_messages` and its proofs in `scram_keys`;
   `oauthbearer`, with `oauthbearer_messages` and the room of tokens; `gssapi`;
3. `server_message`: what a broker sends, before it is believed.
"""
