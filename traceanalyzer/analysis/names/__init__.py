"""What names mean: API calls, collectives, kernels. Text in, vocabulary out."""
