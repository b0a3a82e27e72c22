-- The keys that sign tickets for other servers are derived from the master key by their numbers.

CREATE TABLE ticket_key (               -- no row while the first key was never replaced
    number       INTEGER PRIMARY KEY,
    first_use_ms INTEGER NOT NULL       -- a day after `gamed key rotate-tickets`; 0 for the first key
) STRICT;
