"""What the package says of its own answers, against truth that is known."""
