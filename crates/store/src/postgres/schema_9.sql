-- Both dates are set together, so a new record costs one entry of one index; and its next versions leave the indexes alone
-- as before, since no commit changes a column of these.
CREATE INDEX records_undated ON $schema.records (space, created_ms, record) WHERE primary_date_ms IS NULL;
CREATE INDEX records_by_primary_date ON $schema.records (space, primary_date_ms, record)
    WHERE primary_date_ms IS NOT NULL;
CREATE INDEX records_by_secondary_date ON $schema.records (space, secondary_date_ms, record)
    WHERE secondary_date_ms IS NOT NULL;

-- Records of a space with an earlier date than `p_before`, oldest first, with their dates as they were. Their date becomes
-- `p_claim`, so that nobody else who asks is told of them for a while: nodes share the work. What another transaction has
-- locked is passed over, and does not count: however many are locked, those behind them are told. One after another, for some
-- milliseconds each: with an older snapshot they would lock what the one before has claimed, and keep it from being dated.
-- Nothing of it needs to be on disk: who finds a record twice only looks twice.
CREATE FUNCTION $schema.claim_dated(p_space text, p_secondary boolean, p_before bigint, p_claim bigint, p_limit bigint)
RETURNS TABLE (id text, version bigint, primary_facet text, secondary_facet text, updated_ms bigint,
    date_ms bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(1282100085, '$schema.records'::regclass::oid::bigint::bit(32)::integer);
    IF p_secondary THEN
        RETURN QUERY WITH undated AS MATERIALIZED (
            SELECT r.record, r.id, r.version, r.primary_facet, r.secondary_facet, r.updated_ms,
                r.created_ms AS date_ms FROM $schema.records r
                WHERE r.space = p_space AND r.primary_date_ms IS NULL AND r.created_ms < p_before
                ORDER BY r.created_ms, r.record LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), dated AS MATERIALIZED (
            SELECT r.record, r.id, r.version, r.primary_facet, r.secondary_facet, r.updated_ms,
                r.secondary_date_ms AS date_ms FROM $schema.records r
                WHERE r.space = p_space AND r.secondary_date_ms < p_before
                ORDER BY r.secondary_date_ms, r.record LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), due AS MATERIALIZED (
            SELECT * FROM (TABLE undated UNION ALL TABLE dated) d ORDER BY d.date_ms, d.record LIMIT p_limit
        ), claimed AS (
            UPDATE $schema.records r SET primary_date_ms = coalesce(r.primary_date_ms, r.created_ms), secondary_date_ms = p_claim
                FROM due d WHERE r.record = d.record
        )
        SELECT d.id::text, d.version, d.primary_facet::text, d.secondary_facet::text, d.updated_ms, d.date_ms
            FROM due d ORDER BY d.date_ms, d.record;
    ELSE
        RETURN QUERY WITH undated AS MATERIALIZED (
            SELECT r.record, r.id, r.version, r.primary_facet, r.secondary_facet, r.updated_ms,
                r.created_ms AS date_ms FROM $schema.records r
                WHERE r.space = p_space AND r.primary_date_ms IS NULL AND r.created_ms < p_before
                ORDER BY r.created_ms, r.record LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), dated AS MATERIALIZED (
            SELECT r.record, r.id, r.version, r.primary_facet, r.secondary_facet, r.updated_ms,
                r.primary_date_ms AS date_ms FROM $schema.records r
                WHERE r.space = p_space AND r.primary_date_ms < p_before
                ORDER BY r.primary_date_ms, r.record LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), due AS MATERIALIZED (
            SELECT * FROM (TABLE undated UNION ALL TABLE dated) d ORDER BY d.date_ms, d.record LIMIT p_limit
        ), claimed AS (
            UPDATE $schema.records r SET primary_date_ms = p_claim, secondary_date_ms = coalesce(r.secondary_date_ms, r.created_ms)
                FROM due d WHERE r.record = d.record
        )
        SELECT d.id::text, d.version, d.primary_facet::text, d.secondary_facet::text, d.updated_ms, d.date_ms
            FROM due d ORDER BY d.date_ms, d.record;
    END IF;
END $$;

-- Sets one of the dates of each, and the other with it if it was not set; of a record that another transaction has locked
-- it stays as it is. In turn with the claims: they lock what others may have to date by its other date. Says of how many.
CREATE FUNCTION $schema.set_dates(p_secondary boolean, p_spaces text[], p_ids text[], p_dates bigint[])
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    v_set bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(1282100085, '$schema.records'::regclass::oid::bigint::bit(32)::integer);
    WITH locked AS MATERIALIZED (
        SELECT r.record, d.date_ms FROM unnest(p_spaces, p_ids, p_dates) d (space, id, date_ms)
            JOIN $schema.records r ON r.space = d.space AND r.id = d.id FOR UPDATE OF r SKIP LOCKED
    )
    UPDATE $schema.records r SET
        primary_date_ms = CASE WHEN p_secondary THEN coalesce(r.primary_date_ms, r.created_ms) ELSE l.date_ms END,
        secondary_date_ms = CASE WHEN p_secondary THEN l.date_ms ELSE coalesce(r.secondary_date_ms, r.created_ms) END
        FROM locked l WHERE r.record = l.record;
    GET DIAGNOSTICS v_set = ROW_COUNT;
    RETURN v_set;
END $$
