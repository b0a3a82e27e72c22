-- auth.db has the players, their sessions and the logins that are under way (SPEC 1.6, 2.3).
-- *_index is an HMAC of a value that is never stored itself; sealed_* is AES-256-GCM, bound to its purpose and row.

CREATE TABLE key_record (               -- one row
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    check_value BLOB NOT NULL,          -- HMAC of a constant: shows a wrong master key
    fingerprint TEXT NOT NULL,          -- 12 hex digits that the owner can compare with `gamed key fingerprint`
    source      TEXT NOT NULL CHECK (source IN ('file', 'master')),
    created_ms  INTEGER NOT NULL,
    store_id    TEXT NOT NULL DEFAULT (lower(hex(randomblob(8)))) -- never changes: Gamed-Store of /healthz
) STRICT;

CREATE TABLE player (
    player_id       TEXT PRIMARY KEY,
    state           TEXT NOT NULL CHECK (state IN ('active', 'pending', 'blocked', 'erasing')),
    approved        INTEGER NOT NULL DEFAULT 1 CHECK (approved IN (0, 1)),  -- 0: waits for approval, or did when blocked
    owner           INTEGER NOT NULL DEFAULT 0 CHECK (owner IN (0, 1)),
    approval_code   TEXT,                   -- six digits while `approved` is 0: the owner types them, they sign no player in
    sealed_note     BLOB,
    sealed_display_name BLOB,               -- the name that the game shows; NULL: none
    created_ms      INTEGER NOT NULL,
    last_sign_in_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX player_owner ON player (owner) WHERE owner = 1;
CREATE UNIQUE INDEX player_approval ON player (approval_code) WHERE approval_code IS NOT NULL;
CREATE INDEX player_latest ON player (coalesce(last_sign_in_ms, 0), player_id);
CREATE INDEX player_pending ON player (created_ms) WHERE state = 'pending';
CREATE INDEX player_erasing ON player (player_id) WHERE state = 'erasing';

CREATE TABLE identity (                 -- a provider's account that signs in as a player
    identity_index BLOB PRIMARY KEY,
    player_id      TEXT NOT NULL REFERENCES player ON DELETE CASCADE,
    provider       TEXT NOT NULL,       -- the provider's name in the configuration when it was linked
    realm_index    BLOB NOT NULL,       -- the issuer or namespace, whatever its name in the configuration
    linked_ms      INTEGER NOT NULL,
    last_used_ms   INTEGER NOT NULL,
    UNIQUE (player_id, provider)
) STRICT, WITHOUT ROWID;

CREATE INDEX identity_realm ON identity (realm_index);

CREATE TABLE local_account (
    name_index   BLOB PRIMARY KEY,
    player_id    TEXT NOT NULL UNIQUE REFERENCES player ON DELETE CASCADE,
    sealed_name  BLOB NOT NULL,         -- row: player_id
    password     TEXT NOT NULL,         -- argon2id, PHC string
    linked_ms    INTEGER NOT NULL,
    last_used_ms INTEGER NOT NULL,
    password_ms  INTEGER NOT NULL DEFAULT 0 -- when the owner last set it: earlier proofs are void
) STRICT, WITHOUT ROWID;

CREATE TABLE invite (                   -- a link that admits one new player
    token_index BLOB PRIMARY KEY,
    invite_id   TEXT NOT NULL UNIQUE,
    sealed_name BLOB,                   -- the name that the owner suggests; row: invite_id
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    ended_ms    INTEGER                 -- when it was used or revoked
) STRICT, WITHOUT ROWID;

CREATE INDEX invite_expiry ON invite (expires_ms);

CREATE TABLE reset_link (               -- a link that sets the password of one local account
    token_index BLOB PRIMARY KEY,
    player_id   TEXT NOT NULL REFERENCES player ON DELETE CASCADE,
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    ended_ms    INTEGER                 -- when it was used, or the password was set in another way
) STRICT, WITHOUT ROWID;

CREATE INDEX reset_link_player ON reset_link (player_id);
CREATE INDEX reset_link_expiry ON reset_link (expires_ms);

CREATE TABLE session (
    session_id       TEXT PRIMARY KEY,
    player_id        TEXT NOT NULL REFERENCES player ON DELETE CASCADE,
    login_id         TEXT,              -- the login that created it; NULL if a command did
    provider         TEXT NOT NULL,
    client           TEXT NOT NULL,     -- JSON: what the client sent about itself
    created_ms       INTEGER NOT NULL,  -- the sign-in
    last_used_ms     INTEGER NOT NULL,  -- last sign-in or refresh
    generation       INTEGER NOT NULL,  -- counts rotations from 1
    rotated_ms       INTEGER NOT NULL,  -- when this generation was first handed out
    used             INTEGER NOT NULL CHECK (used IN (0, 1)),
    sealed_successor BLOB,              -- this generation's pair, while its predecessor may ask again; row: session_id
    expires_ms       INTEGER NOT NULL,  -- of the newest refresh credential
    expiry_day       INTEGER NOT NULL,  -- expires_ms in days: a refresh seldom changes it, and the index on it
    tick             INTEGER NOT NULL,  -- of the credentials of this generation
    refresh_arrival_ms INTEGER NOT NULL DEFAULT 0, -- GCRA: the theoretical arrival time of the next refresh
    revoked_ms       INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX session_player ON session (player_id);
CREATE INDEX session_expiry ON session (expiry_day);
CREATE INDEX session_successor ON session (rotated_ms) WHERE used = 1 AND sealed_successor IS NOT NULL;

-- Access tokens, and refresh credentials of every generation until they expire: use of an old one means theft.
-- The first two bytes of a credential are its tick. Those of one batch have nearly equal ticks, so that they are on one
-- page, however many there are. No index has the session: from its newest tick each generation names the tick before.
CREATE TABLE credential (
    tick             INTEGER NOT NULL,
    credential_index BLOB NOT NULL,
    refreshes        INTEGER NOT NULL CHECK (refreshes IN (0, 1)), -- 1: a refresh credential
    session_id       TEXT NOT NULL,
    generation       INTEGER NOT NULL,
    previous_tick    INTEGER,           -- of the generation before this one
    expires_ms       INTEGER NOT NULL,
    PRIMARY KEY (tick, credential_index)
) STRICT, WITHOUT ROWID;

CREATE INDEX credential_expiry ON credential (refreshes, expires_ms);

CREATE TABLE browser_session (          -- a browser that is signed in on the player's own page, /auth/account
    cookie_index BLOB PRIMARY KEY,
    session_id   TEXT NOT NULL UNIQUE,
    player_id    TEXT NOT NULL REFERENCES player ON DELETE CASCADE,
    provider     TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,      -- the sign-in
    last_used_ms INTEGER NOT NULL       -- the last request, to the minute
) STRICT, WITHOUT ROWID;

CREATE INDEX browser_session_player ON browser_session (player_id);
CREATE INDEX browser_session_last_use ON browser_session (last_used_ms);

CREATE TRIGGER player_stopped AFTER UPDATE OF state ON player WHEN NEW.state <> 'active' BEGIN
    DELETE FROM browser_session WHERE player_id = NEW.player_id;
END;

CREATE TABLE login (                    -- one login transaction (SPEC 2.3, PROTOCOL 3)
    login_id               TEXT PRIMARY KEY,
    secret_index           BLOB NOT NULL UNIQUE,
    token_index            BLOB NOT NULL UNIQUE,
    stage                  TEXT NOT NULL,
    outcome                TEXT,            -- the problem code of a final stage
    intent                 TEXT NOT NULL CHECK (intent IN ('login', 'link', 'adopt', 'account')),
    provider               TEXT NOT NULL,
    client                 TEXT NOT NULL,   -- JSON: what the client sent about itself
    return_proof           TEXT NOT NULL CHECK (return_proof IN ('none', 'loopback_or_code', 'app_or_code', 'code')),
    loopback_port          INTEGER,
    return_uri             TEXT,            -- where the browser returns to an app, until the login ends
    address_index          BLOB NOT NULL,   -- the address prefix of the client that started it: /32, or /64
    wide_index             BLOB,            -- IPv6: the /48 around it
    requesting_session_id  TEXT,            -- link: the session that requested it
    invite_id              TEXT,            -- the invite that admits the newcomer who signs in
    browser_index          BLOB,            -- the browser whose attempt won
    instance_id            TEXT NOT NULL,   -- the process that redeems the code; '': none yet
    returned_to_game       INTEGER NOT NULL DEFAULT 0 CHECK (returned_to_game IN (0, 1)), -- once
    sealed_identity        BLOB,            -- the identity that signed in, until collected; row: login_id
    sealed_proof           BLOB,            -- ticket and finish code; row: login_id
    wrong_codes            INTEGER NOT NULL DEFAULT 0,
    session_id             TEXT,            -- created by the first collect with a right proof
    approval_code          TEXT,            -- of the player that the owner has to approve first
    sealed_result          BLOB,            -- the response to collect, until used; row: login_id
    created_ms             INTEGER NOT NULL,
    expires_ms             INTEGER NOT NULL,
    stage_ms               INTEGER NOT NULL, -- when this stage was entered
    expires_or_purge_at_ms INTEGER NOT NULL  -- when this stage expires, or the server deletes the row
) STRICT;

CREATE INDEX login_pending ON login (expires_ms) WHERE stage = 'pending';
CREATE INDEX login_exchanging ON login (instance_id) WHERE stage = 'exchanging';
CREATE INDEX login_ended ON login (stage_ms)
    WHERE stage IN ('collected', 'denied', 'failed', 'cancelled', 'expired');
CREATE INDEX login_expires_or_purge ON login (expires_or_purge_at_ms);
CREATE INDEX login_session ON login (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX login_address ON login (address_index, expires_ms)
    WHERE stage IN ('pending', 'authorizing', 'exchanging', 'ready');
CREATE INDEX login_wide ON login (wide_index, expires_ms)
    WHERE wide_index IS NOT NULL AND stage IN ('pending', 'authorizing', 'exchanging', 'ready');

CREATE TABLE login_count (              -- how many rows of `login` are in each stage
    stage  TEXT PRIMARY KEY,
    logins INTEGER NOT NULL CHECK (logins >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO login_count (stage, logins) VALUES
    ('pending', 0), ('authorizing', 0), ('exchanging', 0), ('ready', 0), ('delivered', 0),
    ('collected', 0), ('denied', 0), ('failed', 0), ('cancelled', 0), ('expired', 0);

CREATE TRIGGER login_inserted AFTER INSERT ON login BEGIN
    UPDATE login_count SET logins = logins + 1 WHERE stage = NEW.stage;
END;

CREATE TRIGGER login_stage_changed AFTER UPDATE OF stage ON login WHEN NEW.stage <> OLD.stage BEGIN
    UPDATE login_count SET logins = logins - 1 WHERE stage = OLD.stage;
    UPDATE login_count SET logins = logins + 1 WHERE stage = NEW.stage;
END;

CREATE TRIGGER login_deleted AFTER DELETE ON login BEGIN
    UPDATE login_count SET logins = logins - 1 WHERE stage = OLD.stage;
END;

CREATE TABLE authorization_attempt (    -- one redirect of a browser to the provider
    number          INTEGER PRIMARY KEY, -- the newest is the greatest
    state_index     BLOB NOT NULL UNIQUE,
    attempt_id      TEXT NOT NULL UNIQUE,
    login_id        TEXT NOT NULL REFERENCES login ON DELETE CASCADE,
    browser_index   BLOB NOT NULL,
    provider        TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('open', 'used', 'invalidated')),
    iss_promised    INTEGER NOT NULL CHECK (iss_promised IN (0, 1)), -- the callback must have iss (RFC 9207)
    player_id       TEXT,               -- adopt: the player whose password was entered before
    sealed_verifier BLOB,               -- row: attempt_id
    sealed_nonce    BLOB,               -- row: attempt_id
    created_ms      INTEGER NOT NULL
) STRICT;

CREATE INDEX authorization_attempt_login ON authorization_attempt (login_id, status, number);

CREATE TABLE limit_bucket (             -- GCRA: the theoretical arrival time of each bucket
    bucket_index BLOB PRIMARY KEY,
    arrival_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX limit_bucket_arrival ON limit_bucket (arrival_ms);

CREATE TABLE player_merge (             -- a player whose saves move to another; player_id may be of a lost auth.db
    player_id  TEXT PRIMARY KEY,
    heir_id    TEXT NOT NULL,
    started_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE command_log (              -- commands that changed something, until the service has logged them
    number    INTEGER PRIMARY KEY,
    command   TEXT NOT NULL,
    player_id TEXT,
    ran_by    TEXT NOT NULL,            -- the operating system's user, as uid:1000
    done_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE last_backup (              -- one row: the last backup that was made of this file
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    made_ms INTEGER NOT NULL,
    bytes   INTEGER NOT NULL
) STRICT;

CREATE TABLE security_event (           -- up to 100,000 rows of 90 days; equal events of one hour share a row
    number    INTEGER PRIMARY KEY,      -- the newest is the greatest
    hour      INTEGER NOT NULL,         -- hours since the epoch
    event     TEXT NOT NULL,
    player_id TEXT NOT NULL,            -- '': no known player; the player may be gone
    detail    TEXT NOT NULL,            -- JSON: the other values of the log line, without those of one request
    first_ms  INTEGER NOT NULL,
    last_ms   INTEGER NOT NULL,
    times     INTEGER NOT NULL,
    UNIQUE (player_id, hour, event, detail)
) STRICT;

CREATE INDEX security_event_last ON security_event (last_ms);
