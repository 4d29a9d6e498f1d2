"""What every room may use: errors, limits, figures, files, guards, work in parallel. It knows no recording."""
