"""Models of recordings that were read before, kept in the user's cache folder: the second question costs no reading.
What was worked out from them, and what was printed, is kept beside them."""
