"""The module of a proposer whose import fails, for a reason of its own."""

raise OSError("the table of guesses is not there")
