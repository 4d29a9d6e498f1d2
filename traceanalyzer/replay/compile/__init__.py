"""What torch.compile cost, where it broke, and what it left: from its log, and from a trace of the
same program."""
