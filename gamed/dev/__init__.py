"""Discord and Google, emulated on this machine for tests and `gamed dev`; for development only."""
