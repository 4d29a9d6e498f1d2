"""Data that the program keeps in host memory, and that could be on the GPU."""
