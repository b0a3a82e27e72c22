"""Commands about assets: the files that games load."""
