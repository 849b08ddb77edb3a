"""What a person does about transactions: list, describe, commit and abort them by hand."""
