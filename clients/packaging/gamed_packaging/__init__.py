"""The packages of the clients: how `clients/build` makes and checks them, with the standard library only."""
