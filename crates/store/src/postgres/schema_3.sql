-- The conditional writes of many records at once, each for itself. The records are locked in the order of their names
-- and only if nobody has them locked; new ones first, since only an insert can wait. That order is the bytes' order, as
-- everywhere, so that two that wait do not wait for each other. Says which sets (from 1) were written; the others are
-- to be committed singly, which tells why.
--
-- The settings make every plan run through the indexes, from the arrays: made once, and right for any table size.
CREATE FUNCTION $schema.commit_many(
    p_spaces text[], p_ids text[], p_expected bigint[], p_lives bigint[], p_counts bigint[], p_primary text[],
    p_secondary text[], p_bodies bytea[], p_ats bigint[], p_commits uuid[],
    p_event_sets integer[], p_event_versions bigint[], p_events bytea[],
    p_key_sets integer[], p_keys text[], p_key_versions bigint[], p_expiries bigint[], p_prints bytea[],
    p_outcomes bytea[],
    p_req_sets integer[], p_req_spaces text[], p_req_ids text[], p_req_versions bigint[], p_lock_ms integer
) RETURNS integer[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_life bigint := $schema.life();
    v_out integer[] := '{}';
    v_records bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_ids)]);
    v_places integer[];
    v_found bigint[];
    v_won integer[] := '{}';
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('lock_timeout', p_lock_ms::text, true);
    IF cardinality(p_req_sets) > 0 THEN
        v_out := ARRAY(SELECT DISTINCT q.place FROM unnest(p_req_sets, p_req_spaces, p_req_ids, p_req_versions)
            q (place, space, id, version)
            WHERE q.version <> coalesce(
                (SELECT r.version FROM $schema.records r WHERE r.space = q.space AND r.id = q.id), 0));
    END IF;
    IF cardinality(p_key_sets) > 0 THEN
        v_out := v_out || ARRAY(SELECT DISTINCT k.place FROM unnest(p_key_sets, p_keys) k (place, key)
            JOIN $schema.records r ON r.space = p_spaces[k.place] AND r.id = p_ids[k.place]
            JOIN $schema.idempotency_keys old ON old.record = r.record AND old.key = k.key
            WHERE old.expires_ms > p_ats[k.place]);
    END IF;
    IF 0 = ANY (p_expected) THEN
        PERFORM set_config('lock_timeout', least(p_lock_ms, 100)::text, true);
        WITH made AS (
            INSERT INTO $schema.records
                (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body)
                SELECT s.space, s.id, s.count, s.primary_facet, s.secondary_facet, s.at, s.at, s.body
                FROM unnest(p_spaces, p_ids, p_expected, p_counts, p_primary, p_secondary, p_bodies, p_ats, p_lives)
                    WITH ORDINALITY
                    s (space, id, expected, count, primary_facet, secondary_facet, body, at, life, place)
                WHERE s.expected = 0 AND (s.life IS NULL OR s.life = v_life) AND s.place <> ALL (v_out)
                ORDER BY s.space COLLATE "C", s.id COLLATE "C"
                ON CONFLICT (space, id) DO NOTHING RETURNING record, space, id
        )
        SELECT array_agg(s.place), array_agg(made.record) INTO v_places, v_found
            FROM made JOIN unnest(p_spaces, p_ids) WITH ORDINALITY s (space, id, place)
                ON s.space = made.space AND s.id = made.id;
        FOR i IN 1 .. coalesce(cardinality(v_places), 0) LOOP
            v_records[v_places[i]] := v_found[i];
            v_won := v_won || v_places[i];
        END LOOP;
        PERFORM set_config('lock_timeout', p_lock_ms::text, true);
    END IF;
    SELECT array_agg(l.place), array_agg(l.record) INTO v_places, v_found FROM (
        SELECT s.place, r.record
            FROM unnest(p_spaces, p_ids, p_expected, p_lives) WITH ORDINALITY s (space, id, expected, life, place)
            JOIN $schema.records r ON r.space = s.space AND r.id = s.id AND r.version = s.expected
            WHERE s.expected > 0 AND (s.life IS NULL OR s.life = v_life) AND s.place <> ALL (v_out)
            ORDER BY r.space, r.id FOR UPDATE OF r SKIP LOCKED) l;
    IF v_places IS NOT NULL THEN
        FOR i IN 1 .. cardinality(v_places) LOOP
            v_records[v_places[i]] := v_found[i];
        END LOOP;
        v_won := v_won || v_places;
        UPDATE $schema.records r SET version = s.expected + s.count, primary_facet = s.primary_facet,
            secondary_facet = s.secondary_facet, updated_ms = s.at, body = s.body
            FROM unnest(v_records, p_expected, p_counts, p_primary, p_secondary, p_bodies, p_ats)
                s (record, expected, count, primary_facet, secondary_facet, body, at)
            WHERE r.record = s.record AND s.expected > 0 AND r.version = s.expected;
    END IF;
    IF cardinality(v_won) = 0 THEN
        RETURN v_won;
    END IF;
    INSERT INTO $schema.events (record, version, commit_id, body)
        SELECT v_records[e.place], e.version, p_commits[e.place], e.body
        FROM unnest(p_event_sets, p_event_versions, p_events) e (place, version, body)
        WHERE v_records[e.place] IS NOT NULL;
    IF cardinality(p_key_sets) > 0 THEN
        INSERT INTO $schema.idempotency_keys (record, key, version, expires_ms, fingerprint, outcome)
            SELECT v_records[k.place], k.key, k.version, k.expires_ms, k.fingerprint, k.outcome
            FROM unnest(p_key_sets, p_keys, p_key_versions, p_expiries, p_prints, p_outcomes)
                k (place, key, version, expires_ms, fingerprint, outcome)
            WHERE v_records[k.place] IS NOT NULL
            ON CONFLICT (record, key) DO UPDATE SET version = excluded.version, expires_ms = excluded.expires_ms,
                fingerprint = excluded.fingerprint, outcome = excluded.outcome;
    END IF;
    RETURN v_won;
END $$;

-- A record's version and those of `p_keys` that it has, of one instant.
CREATE FUNCTION $schema.confirm(
    p_space text, p_id text, p_keys text[], p_at bigint,
    OUT life bigint, OUT version bigint,
    OUT taken_keys text[], OUT taken_versions bigint[], OUT taken_prints bytea[], OUT taken_outcomes bytea[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    life := $schema.life();
    SELECT r.version, k.keys, k.versions, k.prints, k.outcomes
        INTO version, taken_keys, taken_versions, taken_prints, taken_outcomes
        FROM $schema.records r
        LEFT JOIN LATERAL (
            SELECT array_agg(k.key::text) AS keys, array_agg(k.version) AS versions,
                array_agg(k.fingerprint) AS prints, array_agg(k.outcome) AS outcomes
            FROM $schema.idempotency_keys k
            WHERE k.record = r.record AND k.key = ANY (p_keys) AND k.expires_ms > p_at
        ) k ON true
        WHERE r.space = p_space AND r.id = p_id;
    IF taken_keys IS NOT NULL THEN
        PERFORM $schema.wait_for_standby();
    END IF;
END $$;

-- Whether a version of a record was written under a commit id.
CREATE FUNCTION $schema.committed(
    p_space text, p_id text, p_version bigint, p_commit uuid, OUT life bigint, OUT committed boolean
) LANGUAGE plpgsql AS $$
BEGIN
    life := $schema.life();
    committed := EXISTS (SELECT FROM $schema.records r JOIN $schema.events e ON e.record = r.record
        WHERE r.space = p_space AND r.id = p_id AND e.version = p_version AND e.commit_id = p_commit);
    IF committed THEN
        PERFORM $schema.wait_for_standby();
    END IF;
END $$
