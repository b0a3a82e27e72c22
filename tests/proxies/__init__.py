"""nginx and Caddy run with the samples of etc/ in front of gamed."""
