"""Pictures as SVG: `Plot` says what to draw, `drawn` draws it for the page, `standalone` for
anywhere else."""
