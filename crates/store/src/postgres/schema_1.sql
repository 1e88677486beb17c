-- The tables. `$schema` is replaced by the quoted name of the schema.
--
-- Texts compare by bytes: collation "C". `records.record` orders records by creation, whatever clocks say; each index
-- that lists them ends with it. Events and keys hang on that number, so that their indexes stay narrow.
-- The sizes repeat `limits`; `verify` has checked them before.

CREATE TABLE $schema.records (
    record          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version         bigint NOT NULL CHECK (version > 0),
    created_ms      bigint NOT NULL,
    updated_ms      bigint NOT NULL,
    space           text COLLATE "C" NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 512),
    id              text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 512),
    primary_facet   text COLLATE "C" NOT NULL CHECK (octet_length(primary_facet) <= 512),
    secondary_facet text COLLATE "C" NOT NULL CHECK (octet_length(secondary_facet) <= 512),
    body            bytea NOT NULL CHECK (octet_length(body) <= 1048576)
-- Room on each page for the next version of a row: an update that finds it there leaves the indexes alone.
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX records_by_id ON $schema.records (space, id);
CREATE INDEX records_by_space ON $schema.records (space, record);
CREATE INDEX records_by_primary ON $schema.records (space, primary_facet, record);
CREATE INDEX records_by_secondary ON $schema.records (space, secondary_facet, record);

CREATE TABLE $schema.events (
    record    bigint NOT NULL,
    version   bigint NOT NULL CHECK (version > 0),
    commit_id uuid   NOT NULL,
    body      bytea  NOT NULL CHECK (octet_length(body) <= 1114112),
    PRIMARY KEY (record, version)
);

CREATE TABLE $schema.idempotency_keys (
    record      bigint NOT NULL,
    version     bigint NOT NULL CHECK (version > 0),
    expires_ms  bigint NOT NULL,
    key         text COLLATE "C" NOT NULL CHECK (octet_length(key) <= 512),
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    outcome     bytea NOT NULL CHECK (octet_length(outcome) <= 1114112),
    PRIMARY KEY (record, key)
);
CREATE INDEX idempotency_keys_by_expiry ON $schema.idempotency_keys (expires_ms);

-- The lives of this store, the newest last: when its history may have lost its end, another begins (`life`).
CREATE TABLE $schema.lives (
    life     bigint PRIMARY KEY,
    timeline bigint NOT NULL,
    home     oid NOT NULL,
    since    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
