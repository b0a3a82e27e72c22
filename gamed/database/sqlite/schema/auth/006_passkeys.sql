-- Players sign in with passkeys: public keys whose private halves their devices keep (WebAuthn Level 2).

CREATE TABLE passkey (
    credential_index  BLOB PRIMARY KEY,     -- of the credential's id
    passkey_id        TEXT NOT NULL UNIQUE,
    player_id         TEXT NOT NULL REFERENCES player ON DELETE CASCADE,
    rp_id             TEXT NOT NULL,        -- the host of public_url when it was made: under another it is void
    sealed_credential BLOB NOT NULL,        -- the credential's id, its public key and the user handle; row: passkey_id
    sealed_name       BLOB NOT NULL,        -- row: passkey_id
    sign_count        INTEGER NOT NULL,     -- the highest one that was seen; 0: this authenticator does not count
    synced            INTEGER NOT NULL CHECK (synced IN (0, 1)), -- backup eligible: it may be on several devices
    backed_up         INTEGER NOT NULL CHECK (backed_up IN (0, 1)), -- at its last use
    created_ms        INTEGER NOT NULL,
    last_used_ms      INTEGER               -- NULL: never
) STRICT, WITHOUT ROWID;

CREATE INDEX passkey_player ON passkey (player_id);

CREATE TABLE passkey_challenge (            -- challenges that were used, until they would be too old anyway
    challenge_index BLOB PRIMARY KEY,
    expires_ms      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX passkey_challenge_expiry ON passkey_challenge (expires_ms);

-- The passkey that opened a session, which ends with it.
ALTER TABLE session ADD COLUMN passkey_id TEXT;
ALTER TABLE browser_session ADD COLUMN passkey_id TEXT;
