"""Where steps begin and end in a running program, and how long they take."""
