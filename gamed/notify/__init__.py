"""The server speaks up: it watches itself, and sends its owner a message by a webhook once for each change."""
