-- oldest: 2
-- The schema auth: gamed/database/sqlite/schema/auth/007_recovery_codes.sql explains this.

CREATE TABLE recovery_code (
    code_index bytea PRIMARY KEY,
    player_id  text COLLATE "C" NOT NULL REFERENCES player ON DELETE CASCADE,
    created_ms bigint NOT NULL
);

CREATE INDEX recovery_code_player ON recovery_code (player_id);
