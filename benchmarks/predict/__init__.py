"""Sealed proof of `whatif --batch --length --precision --gpu`: predictions from one recording,
written down before the program is timed at the other setting."""
