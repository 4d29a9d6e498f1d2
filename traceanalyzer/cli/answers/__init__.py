"""Commands that answer a question about recordings."""
