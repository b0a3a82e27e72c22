"""What an installed gamed is: tried in fresh environments, without the network."""
