"""Arrays in, arrays out: intervals, nesting, grouping. Nothing here knows a trace."""
