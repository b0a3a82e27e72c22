"""Templates, texts and the look of what browsers show."""
