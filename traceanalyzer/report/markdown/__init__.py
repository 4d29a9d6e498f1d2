"""The report as Markdown, for issues."""
