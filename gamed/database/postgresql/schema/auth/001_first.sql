-- The schema auth has the tables of auth.db: gamed/database/sqlite/schema/auth/001_first.sql explains their columns.
-- Text is compared by its bytes, as in SQLite. Functions name their schema: any client may cause their triggers.

CREATE TABLE key_record (
    one         bigint PRIMARY KEY CHECK (one = 1),
    check_value bytea NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    source      text COLLATE "C" NOT NULL CHECK (source IN ('file', 'master')),
    created_ms  bigint NOT NULL,
    store_id    text COLLATE "C" NOT NULL
        DEFAULT left(encode(sha256(uuid_send(gen_random_uuid())), 'hex'), 16)
);

CREATE TABLE player (
    player_id       text COLLATE "C" PRIMARY KEY,
    state           text COLLATE "C" NOT NULL CHECK (state IN ('active', 'pending', 'blocked', 'erasing')),
    approved        bigint NOT NULL DEFAULT 1 CHECK (approved IN (0, 1)),
    owner           bigint NOT NULL DEFAULT 0 CHECK (owner IN (0, 1)),
    approval_code   text COLLATE "C",
    sealed_note     bytea,
    sealed_display_name bytea,
    created_ms      bigint NOT NULL,
    last_sign_in_ms bigint
);

CREATE UNIQUE INDEX player_owner ON player (owner) WHERE owner = 1;
CREATE UNIQUE INDEX player_approval ON player (approval_code) WHERE approval_code IS NOT NULL;
CREATE INDEX player_latest ON player (coalesce(last_sign_in_ms, 0), player_id);
CREATE INDEX player_pending ON player (created_ms) WHERE state = 'pending';
CREATE INDEX player_erasing ON player (player_id) WHERE state = 'erasing';

CREATE TABLE identity (
    identity_index bytea PRIMARY KEY,
    player_id      text COLLATE "C" NOT NULL REFERENCES player ON DELETE CASCADE,
    provider       text COLLATE "C" NOT NULL,
    realm_index    bytea NOT NULL,
    linked_ms      bigint NOT NULL,
    last_used_ms   bigint NOT NULL,
    UNIQUE (player_id, provider)
);

CREATE INDEX identity_realm ON identity (realm_index);

CREATE TABLE local_account (
    name_index   bytea PRIMARY KEY,
    player_id    text COLLATE "C" NOT NULL UNIQUE REFERENCES player ON DELETE CASCADE,
    sealed_name  bytea NOT NULL,
    password     text COLLATE "C" NOT NULL,
    linked_ms    bigint NOT NULL,
    last_used_ms bigint NOT NULL,
    password_ms  bigint NOT NULL DEFAULT 0
);

CREATE TABLE invite (
    token_index bytea PRIMARY KEY,
    invite_id   text COLLATE "C" NOT NULL UNIQUE,
    sealed_name bytea,
    created_ms  bigint NOT NULL,
    expires_ms  bigint NOT NULL,
    ended_ms    bigint
);

CREATE INDEX invite_expiry ON invite (expires_ms);

CREATE TABLE reset_link (
    token_index bytea PRIMARY KEY,
    player_id   text COLLATE "C" NOT NULL REFERENCES player ON DELETE CASCADE,
    created_ms  bigint NOT NULL,
    expires_ms  bigint NOT NULL,
    ended_ms    bigint
);

CREATE INDEX reset_link_player ON reset_link (player_id);
CREATE INDEX reset_link_expiry ON reset_link (expires_ms);

CREATE TABLE session (
    session_id       text COLLATE "C" PRIMARY KEY,
    player_id        text COLLATE "C" NOT NULL REFERENCES player ON DELETE CASCADE,
    login_id         text COLLATE "C",
    provider         text COLLATE "C" NOT NULL,
    client           text COLLATE "C" NOT NULL,
    created_ms       bigint NOT NULL,
    last_used_ms     bigint NOT NULL,
    generation       bigint NOT NULL,
    rotated_ms       bigint NOT NULL,
    used             bigint NOT NULL CHECK (used IN (0, 1)),
    sealed_successor bytea,
    expires_ms       bigint NOT NULL,
    expiry_day       bigint NOT NULL,
    tick             bigint NOT NULL,
    refresh_arrival_ms bigint NOT NULL DEFAULT 0,
    revoked_ms       bigint
);

CREATE INDEX session_player ON session (player_id);
CREATE INDEX session_expiry ON session (expiry_day);
CREATE INDEX session_successor ON session (rotated_ms) WHERE used = 1 AND sealed_successor IS NOT NULL;

CREATE TABLE credential (
    tick             bigint NOT NULL,
    credential_index bytea NOT NULL,
    refreshes        bigint NOT NULL CHECK (refreshes IN (0, 1)),
    session_id       text COLLATE "C" NOT NULL,
    generation       bigint NOT NULL,
    previous_tick    bigint,
    expires_ms       bigint NOT NULL,
    PRIMARY KEY (tick, credential_index)
);

CREATE INDEX credential_expiry ON credential (refreshes, expires_ms);

CREATE TABLE browser_session (
    cookie_index bytea PRIMARY KEY,
    session_id   text COLLATE "C" NOT NULL UNIQUE,
    player_id    text COLLATE "C" NOT NULL REFERENCES player ON DELETE CASCADE,
    provider     text COLLATE "C" NOT NULL,
    created_ms   bigint NOT NULL,
    last_used_ms bigint NOT NULL
);

CREATE INDEX browser_session_player ON browser_session (player_id);
CREATE INDEX browser_session_last_use ON browser_session (last_used_ms);

CREATE FUNCTION end_browser_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM auth.browser_session WHERE player_id = NEW.player_id;
    RETURN NULL;
END $$;

CREATE TRIGGER player_stopped AFTER UPDATE OF state ON player
    FOR EACH ROW WHEN (NEW.state <> 'active') EXECUTE FUNCTION end_browser_sessions();

CREATE TABLE login (
    login_id               text COLLATE "C" PRIMARY KEY,
    secret_index           bytea NOT NULL UNIQUE,
    token_index            bytea NOT NULL UNIQUE,
    stage                  text COLLATE "C" NOT NULL,
    outcome                text COLLATE "C",
    intent                 text COLLATE "C" NOT NULL CHECK (intent IN ('login', 'link', 'adopt', 'account')),
    provider               text COLLATE "C" NOT NULL,
    client                 text COLLATE "C" NOT NULL,
    return_proof           text COLLATE "C" NOT NULL
        CHECK (return_proof IN ('none', 'loopback_or_code', 'app_or_code', 'code')),
    loopback_port          bigint,
    return_uri             text COLLATE "C",
    address_index          bytea NOT NULL,
    wide_index             bytea,
    requesting_session_id  text COLLATE "C",
    invite_id              text COLLATE "C",
    browser_index          bytea,
    instance_id            text COLLATE "C" NOT NULL,
    returned_to_game       bigint NOT NULL DEFAULT 0 CHECK (returned_to_game IN (0, 1)),
    sealed_identity        bytea,
    sealed_proof           bytea,
    wrong_codes            bigint NOT NULL DEFAULT 0,
    session_id             text COLLATE "C",
    approval_code          text COLLATE "C",
    sealed_result          bytea,
    created_ms             bigint NOT NULL,
    expires_ms             bigint NOT NULL,
    stage_ms               bigint NOT NULL,
    expires_or_purge_at_ms bigint NOT NULL
);

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

CREATE TABLE login_count (
    stage  text COLLATE "C" PRIMARY KEY,
    logins bigint NOT NULL CHECK (logins >= 0)
);

INSERT INTO login_count (stage, logins) VALUES
    ('pending', 0), ('authorizing', 0), ('exchanging', 0), ('ready', 0), ('delivered', 0),
    ('collected', 0), ('denied', 0), ('failed', 0), ('cancelled', 0), ('expired', 0);

-- The lock comes last in every transaction that takes it, so that two of them never wait for each other. Without it two
-- transactions could count the same stages in another order, and deadlock.
CREATE FUNCTION count_logins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1, 65);
    IF TG_OP <> 'INSERT' THEN
        UPDATE auth.login_count SET logins = logins - 1 WHERE stage = OLD.stage;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        UPDATE auth.login_count SET logins = logins + 1 WHERE stage = NEW.stage;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER login_inserted AFTER INSERT ON login FOR EACH ROW EXECUTE FUNCTION count_logins();
CREATE TRIGGER login_stage_changed AFTER UPDATE OF stage ON login
    FOR EACH ROW WHEN (NEW.stage <> OLD.stage) EXECUTE FUNCTION count_logins();
CREATE TRIGGER login_deleted AFTER DELETE ON login FOR EACH ROW EXECUTE FUNCTION count_logins();

CREATE TABLE authorization_attempt (
    number          bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    state_index     bytea NOT NULL UNIQUE,
    attempt_id      text COLLATE "C" NOT NULL UNIQUE,
    login_id        text COLLATE "C" NOT NULL REFERENCES login ON DELETE CASCADE,
    browser_index   bytea NOT NULL,
    provider        text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL CHECK (status IN ('open', 'used', 'invalidated')),
    iss_promised    bigint NOT NULL CHECK (iss_promised IN (0, 1)),
    player_id       text COLLATE "C",
    sealed_verifier bytea,
    sealed_nonce    bytea,
    created_ms      bigint NOT NULL
);

CREATE INDEX authorization_attempt_login ON authorization_attempt (login_id, status, number);

CREATE TABLE limit_bucket (
    bucket_index bytea PRIMARY KEY,
    arrival_ms   bigint NOT NULL
);

CREATE INDEX limit_bucket_arrival ON limit_bucket (arrival_ms);

CREATE TABLE player_merge (
    player_id  text COLLATE "C" PRIMARY KEY,
    heir_id    text COLLATE "C" NOT NULL,
    started_ms bigint NOT NULL
);

CREATE TABLE command_log (
    number    bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    command   text COLLATE "C" NOT NULL,
    player_id text COLLATE "C",
    ran_by    text COLLATE "C" NOT NULL,
    done_ms   bigint NOT NULL
);

CREATE TABLE last_backup (
    one     bigint PRIMARY KEY CHECK (one = 1),
    made_ms bigint NOT NULL,
    bytes   bigint NOT NULL
);

CREATE TABLE security_event (
    number    bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    hour      bigint NOT NULL,
    event     text COLLATE "C" NOT NULL,
    player_id text COLLATE "C" NOT NULL,
    detail    text COLLATE "C" NOT NULL,
    first_ms  bigint NOT NULL,
    last_ms   bigint NOT NULL,
    times     bigint NOT NULL,
    UNIQUE (player_id, hour, event, detail)
);

CREATE INDEX security_event_last ON security_event (last_ms);

-- Other processes hear of changed rows that clients may wait for. PostgreSQL sends one notification per transaction and
-- channel. Triggers of statements would send one for a statement that changes no row, too, and each notification keeps
-- other transactions that send one from committing at the same time. The payload names the writer: a process that
-- listens ignores its own.
CREATE FUNCTION notify_processes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], current_setting('application_name'));
    RETURN NULL;
END $$;

CREATE TRIGGER login_advanced AFTER UPDATE OF stage ON login
    FOR EACH ROW WHEN (NEW.stage <> OLD.stage) EXECUTE FUNCTION notify_processes('gamed_logins');
CREATE TRIGGER login_removed AFTER DELETE ON login FOR EACH ROW EXECUTE FUNCTION notify_processes('gamed_logins');
CREATE TRIGGER session_ended AFTER UPDATE OF revoked_ms ON session
    FOR EACH ROW WHEN (NEW.revoked_ms IS DISTINCT FROM OLD.revoked_ms)
    EXECUTE FUNCTION notify_processes('gamed_sessions');
CREATE TRIGGER session_removed AFTER DELETE ON session
    FOR EACH ROW EXECUTE FUNCTION notify_processes('gamed_sessions');
CREATE TRIGGER player_changed AFTER UPDATE OF state ON player
    FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION notify_processes('gamed_sessions');

-- The database that this schema was made in, or last confirmed in by `gamed restored`; a restored dump differs.
CREATE TABLE database_identity (
    one               bigint PRIMARY KEY CHECK (one = 1),
    system_identifier bigint NOT NULL,
    database_oid      bigint NOT NULL,
    table_oid         bigint NOT NULL,
    xid               bigint NOT NULL,
    server_major      bigint NOT NULL
);

CREATE TABLE heartbeat (                -- counted up by the processes that serve
    one        bigint PRIMARY KEY CHECK (one = 1),
    generation bigint NOT NULL,
    beats      bigint NOT NULL,
    beat_ms    bigint NOT NULL
);
