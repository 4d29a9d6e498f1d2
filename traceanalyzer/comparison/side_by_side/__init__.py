"""Two runs side by side: rows of their tables, and their ranks."""
