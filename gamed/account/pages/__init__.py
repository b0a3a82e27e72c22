"""The player's own page is HTML without script, in light and dark, as the pages of a login are."""
