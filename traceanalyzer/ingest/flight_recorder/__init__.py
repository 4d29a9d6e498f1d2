"""PyTorch Flight Recorder dumps of the ranks of a job."""
