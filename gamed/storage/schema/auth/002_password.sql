-- When the owner last gave the account another password; what was proved with the one before counts no more.
ALTER TABLE local_account ADD COLUMN password_ms INTEGER NOT NULL DEFAULT 0;
