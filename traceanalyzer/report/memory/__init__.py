"""The memory report: what a snapshot tells, in the terminal, Markdown, JSON and HTML."""
