"""The report as a value, and its renderers: terminal, Markdown, JSON, CSV."""
