"""Commands about stored data: saves, backup, restore, and moves to another place."""
