"""The proposer: guesses how requests go on. What it gets wrong costs speed and never changes a token."""
