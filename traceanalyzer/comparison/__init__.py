"""Two reports side by side: what changed, where it came from, and whether it crosses a limit.

A room of its own to the right of `report`: a comparison reads reports as values (fresh, saved as
JSON or kept in a history, which makes these equal) and draws with the report's pens; nothing in
`analysis`, `diagnosis` or `report` knows that there can be two. Only `cli` is further right."""
