"""What commands share: reading what is named, progress, writing the result."""
