"""What the owner's log says about security."""
