-- Histories are bounded in rows: each version counts 512 bytes, its ctype and its meta, a long one as at least 2,000:
-- its row takes a page of its own. Deleted slots are counted and expire.

ALTER TABLE player_saves ADD COLUMN deleted_slots INTEGER NOT NULL DEFAULT 0;
-- The highest seq and version number of a slot whose row was deleted: an older cursor is reset, and no etag comes twice.
ALTER TABLE player_saves ADD COLUMN expired_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE player_saves ADD COLUMN expired_version INTEGER NOT NULL DEFAULT 0;

UPDATE player_saves SET
    deleted_slots = (
        SELECT count(*) FROM save s WHERE s.player_id = player_saves.player_id AND s.current_version IS NULL
    ),
    kept_bytes = (
        SELECT coalesce(sum(
            v.size + 512 + coalesce(length(v.ctype), 0)
            + CASE WHEN length(v.meta) BETWEEN 257 AND 1999 THEN 2000 ELSE coalesce(length(v.meta), 0) END
        ), 0)
        FROM save_version v LEFT JOIN save s ON s.player_id = v.player_id AND s.slot = v.slot
        WHERE v.player_id = player_saves.player_id AND v.version IS DISTINCT FROM s.current_version
    )
WHERE erasing = 0;
