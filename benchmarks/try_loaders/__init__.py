"""Programs whose loader is slow on a CPU, each written in another way; the last word `fix` gives the
workers that somebody would write by hand."""
