"""An installed gamed is tested in new virtual environments, without the network."""
