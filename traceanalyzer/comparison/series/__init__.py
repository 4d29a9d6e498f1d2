"""Several runs of one program, one after the other."""
