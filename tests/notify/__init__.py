"""Messages to the owner: what is worth one, its forms, and the webhook."""
