"""What let each device op start: gaps and their causes, the critical path."""
