-- What a player has staged for a commit is counted before more is taken (PROTOCOL 4.4, 7).
-- From here on `blob.created_ms` is the time the bytes came, 0 once a version has had them: the sweep need not wait.

CREATE INDEX blob_staged ON blob (player_id, created_ms, size) WHERE refs = 0 AND sha256 NOT NULL;
