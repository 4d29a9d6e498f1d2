"""Names where there is little room for them."""
