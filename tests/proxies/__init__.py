"""nginx and Caddy themselves, with the samples of etc/, in front of gamed."""
