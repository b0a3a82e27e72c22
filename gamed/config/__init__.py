"""What the owner wrote, read whole and judged at once; pure, the porch does the reading."""
