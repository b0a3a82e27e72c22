-- Players who have lost a passkey or a password sign in with a recovery code, once with each.

CREATE TABLE recovery_code (                -- the codes that were not used: a sign-in with one deletes it
    code_index BLOB PRIMARY KEY,            -- of the player's id and the code
    player_id  TEXT NOT NULL REFERENCES player ON DELETE CASCADE,
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX recovery_code_player ON recovery_code (player_id);
