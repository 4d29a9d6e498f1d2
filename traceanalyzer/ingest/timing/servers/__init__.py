"""Lines of serving engines' logs: iterations, batches, and the load of the server. Each function reads
one line; None where it is not of its kind, ValueError where it is damaged."""
