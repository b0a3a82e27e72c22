"""Development only: a provider that plays Discord and Google on this machine, for the tests and for `gamed dev`."""
