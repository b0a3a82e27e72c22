"""Providers, browsers and networks with every known fault, against complete sign-ins."""
