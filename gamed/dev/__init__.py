"""This package is for development only: it emulates Discord and Google on this machine, for tests and `gamed dev`."""
