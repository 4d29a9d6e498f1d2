"""Gradients that no optimizer takes."""
