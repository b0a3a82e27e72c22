"""`gamed setup`, as root among folders that stand for this machine's, and as a user without rights in a home folder."""
