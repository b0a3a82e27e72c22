"""Tickets: what they state, who gets them, the keys that sign them, and what forged ones are answered."""
