"""The browser pages of a login are HTML without script, in light and dark."""
