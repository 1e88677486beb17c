-- A life is known by its cluster, too: a dump that is restored into a cluster made anew has the timeline of the first, and
-- with the same steps its tables have the same numbers. To ask for the cluster's identifier is to read a file, so the life
-- keeps when the server was started that last proved it.
ALTER TABLE $schema.lives ADD COLUMN system bigint, ADD COLUMN started timestamptz;
UPDATE $schema.lives SET system = (SELECT c.system_identifier FROM pg_control_system() c),
    started = pg_postmaster_start_time() WHERE life = (SELECT max(l.life) FROM $schema.lives l);

-- Begins a life. Its number is the clock's milliseconds, above all before; and up to 16 of them are drawn, since two standbys
-- promoted in the same one are not the same. No more: of two that are promoted one after the other the later one has to have the
-- greater number, or whoever has seen the first takes it for a former primary.
CREATE FUNCTION $schema.begin_life() RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO $schema.lives (life, timeline, home, system, started) SELECT
        greatest(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, coalesce(max(l.life), 0))
            + 1 + floor(random() * 16)::bigint,
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint, '$schema.records'::regclass,
        (SELECT c.system_identifier FROM pg_control_system() c), pg_postmaster_start_time()
        FROM $schema.lives l
        RETURNING life
$$;

-- As before, and another life begins where the cluster is not that of the last one. A life of which the cluster is not known
-- (a node of the release before began it, or a person) has this one.
CREATE OR REPLACE FUNCTION $schema.life() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_timeline CONSTANT bigint := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
    v_home CONSTANT oid := '$schema.records'::regclass;
    v_started CONSTANT timestamptz := pg_postmaster_start_time();
    v_system bigint;
    v_last record;
BEGIN
    SELECT l.life, l.timeline, l.home, l.system, l.started INTO v_last
        FROM $schema.lives l ORDER BY l.life DESC LIMIT 1;
    IF v_last.timeline = v_timeline AND v_last.home = v_home AND v_last.started = v_started THEN
        RETURN v_last.life;
    END IF;
    v_system := (SELECT c.system_identifier FROM pg_control_system() c);
    IF (v_last.timeline = v_timeline AND v_last.home = v_home AND coalesce(v_last.system, v_system) = v_system)
        IS NOT TRUE THEN
        -- Rare: whoever comes first begins it, the others find it.
        PERFORM pg_advisory_xact_lock(1282100081, v_home::bigint::bit(32)::integer);
        SELECT l.life, l.timeline, l.home, l.system, l.started INTO v_last
            FROM $schema.lives l ORDER BY l.life DESC LIMIT 1;
        IF (v_last.timeline = v_timeline AND v_last.home = v_home AND coalesce(v_last.system, v_system) = v_system)
            IS NOT TRUE THEN
            RETURN $schema.begin_life();
        END IF;
    END IF;
    -- The same life on a server that was started since. Nobody waits for who notes it; without the right nobody does.
    IF v_last.started IS DISTINCT FROM v_started AND NOT current_setting('transaction_read_only')::boolean
        AND has_table_privilege('$schema.lives', 'UPDATE')
        AND pg_try_advisory_xact_lock(1282100081, v_home::bigint::bit(32)::integer) THEN
        UPDATE $schema.lives l SET system = v_system, started = v_started
            WHERE l.life = v_last.life AND l.started IS DISTINCT FROM v_started;
    END IF;
    RETURN v_last.life;
END $$
