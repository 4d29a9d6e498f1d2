"""What is seen of a run from inside its process: values are kept as tensors, and read at the end."""
