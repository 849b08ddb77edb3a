"""What clients may do: deny rules (ACLs), and the operations that requests require.

In reading order:

- `denials`: deny rules, the broker's only ACLs
- `required_operations`: the operations that a client must be authorized for, by API
- `authorizer`: removes denied items from requests, and adds their errors to responses
- `authorized_operations`: the operations that are not denied to a client, as in responses
"""
