"""What games load: files by content, releases that name them, channels that point at a release (PROTOCOL 5)."""
