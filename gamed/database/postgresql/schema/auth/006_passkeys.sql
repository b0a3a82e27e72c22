-- oldest: 2
-- The schema auth: gamed/database/sqlite/schema/auth/006_passkeys.sql explains this.

CREATE TABLE passkey (
    credential_index  bytea PRIMARY KEY,
    passkey_id        text COLLATE "C" NOT NULL UNIQUE,
    player_id         text COLLATE "C" NOT NULL REFERENCES player ON DELETE CASCADE,
    rp_id             text COLLATE "C" NOT NULL,
    sealed_credential bytea NOT NULL,
    sealed_name       bytea NOT NULL,
    sign_count        bigint NOT NULL,
    synced            bigint NOT NULL CHECK (synced IN (0, 1)),
    backed_up         bigint NOT NULL CHECK (backed_up IN (0, 1)),
    created_ms        bigint NOT NULL,
    last_used_ms      bigint
);

CREATE INDEX passkey_player ON passkey (player_id);

CREATE TABLE passkey_challenge (
    challenge_index bytea PRIMARY KEY,
    expires_ms      bigint NOT NULL
);

CREATE INDEX passkey_challenge_expiry ON passkey_challenge (expires_ms);

ALTER TABLE session ADD COLUMN passkey_id text COLLATE "C";
ALTER TABLE browser_session ADD COLUMN passkey_id text COLLATE "C";
