"""What RFC 9110 says about conditions and ranges, free of any server (PROTOCOL 6)."""
