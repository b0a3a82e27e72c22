"""What `gamed doctor` makes of what it saw: findings, each with what to do. Looking is done elsewhere."""
