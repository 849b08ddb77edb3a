"""Who writes: logins that are not shared, denials that are named, and secrets that are not told."""
