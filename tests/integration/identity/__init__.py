"""Identity of writers: separate logins, authorization errors and no leaked secrets."""
