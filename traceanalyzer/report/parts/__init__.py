"""What a report says in all of its forms beside its figures: hashes, first rows, the words of a GPU's
maker."""
