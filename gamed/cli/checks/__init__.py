"""Commands that find what is wrong: health, doctor and check."""
