-- The conditional write, as functions: one call is one round trip, and works through a pooler that gives each
-- transaction another connection (no prepared statements, no settings that outlive the transaction).
--
-- A function that nodes of an older release call is never changed: a later migration adds one under another name.

-- The server's timeline: it grows when a standby is promoted or a backup is restored, so that two histories that share
-- their version numbers can be told apart. Fails on a server in recovery: what is asked here is asked of the primary.
CREATE FUNCTION $schema.life() RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint $$;

-- Those of `p_keys` that a record has and that have not expired; no row if it has none.
CREATE FUNCTION $schema.taken(p_record bigint, p_keys text[], p_at bigint)
RETURNS TABLE (keys text[], versions bigint[], prints bytea[], outcomes bytea[]) LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF cardinality(p_keys) > 0 THEN
        RETURN QUERY SELECT array_agg(k.key::text), array_agg(k.version), array_agg(k.fingerprint), array_agg(k.outcome)
            FROM $schema.idempotency_keys k
            WHERE k.record = p_record AND k.key = ANY (p_keys) AND k.expires_ms > p_at HAVING count(*) > 0;
    END IF;
END $$;

-- Locks a record's row and says whether a change set may be written: 0 yes, 1 another version (or another life), 2 keys
-- taken, 3 a requirement does not hold, 4 locked by another transaction (told only if `p_lock_ms` is 0). Without
-- `p_expected` it locks the row, whatever its version, and finds the keys.
CREATE FUNCTION $schema.check_one(
    p_space text, p_id text, p_expected bigint, p_life bigint, p_at bigint, p_keys text[],
    p_req_spaces text[], p_req_ids text[], p_req_versions bigint[], p_lock_ms integer,
    OUT verdict integer, OUT contended boolean, OUT place integer, OUT actual bigint, OUT life bigint,
    OUT record bigint, OUT version bigint, OUT primary_facet text, OUT secondary_facet text,
    OUT created_ms bigint, OUT updated_ms bigint, OUT body bytea,
    OUT taken_keys text[], OUT taken_versions bigint[], OUT taken_prints bytea[], OUT taken_outcomes bytea[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_row $schema.records%ROWTYPE;
BEGIN
    verdict := 0;
    contended := false;
    -- What is acknowledged is on disk, whatever the role's or the database's default; stricter settings are kept.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    life := $schema.life();
    LOOP
        SELECT * INTO v_row FROM $schema.records r WHERE r.space = p_space AND r.id = p_id;
        EXIT WHEN NOT FOUND;
        -- Before the row is locked: a lock has to be written down and synced, and what has lost needs none. Versions
        -- only grow, so what has lost stays lost; keys come with versions, so those of this version stay its keys.
        IF p_expected IS NOT NULL THEN
            EXIT WHEN v_row.version <> p_expected OR p_life <> life;
            SELECT t.keys, t.versions, t.prints, t.outcomes
                INTO taken_keys, taken_versions, taken_prints, taken_outcomes
                FROM $schema.taken(v_row.record, p_keys, p_at) t;
            EXIT WHEN taken_keys IS NOT NULL;
        END IF;
        SELECT * INTO v_row FROM $schema.records r WHERE r.space = p_space AND r.id = p_id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            contended := true;
            IF p_lock_ms = 0 THEN
                verdict := 4;
                RETURN;
            END IF;
            PERFORM set_config('lock_timeout', p_lock_ms::text, true);
            SELECT * INTO v_row FROM $schema.records r WHERE r.space = p_space AND r.id = p_id FOR UPDATE;
        END IF;
        EXIT WHEN p_expected IS NULL OR v_row.version = p_expected;
    END LOOP;
    record := v_row.record;
    IF taken_keys IS NULL AND record IS NOT NULL AND (p_expected IS NULL OR v_row.version <> p_expected) THEN
        SELECT t.keys, t.versions, t.prints, t.outcomes INTO taken_keys, taken_versions, taken_prints, taken_outcomes
            FROM $schema.taken(v_row.record, p_keys, p_at) t;
    END IF;
    IF taken_keys IS NOT NULL AND p_expected IS NOT NULL THEN
        verdict := 2;
        RETURN;
    END IF;
    IF p_expected IS NULL OR coalesce(v_row.version, 0) <> p_expected OR p_life <> life THEN
        verdict := CASE WHEN p_expected IS NULL THEN 0 ELSE 1 END;
        version := v_row.version;
        primary_facet := v_row.primary_facet;
        secondary_facet := v_row.secondary_facet;
        created_ms := v_row.created_ms;
        updated_ms := v_row.updated_ms;
        body := v_row.body;
        RETURN;
    END IF;
    FOR i IN 1 .. cardinality(p_req_spaces) LOOP
        actual := coalesce((SELECT r.version FROM $schema.records r
            WHERE r.space = p_req_spaces[i] AND r.id = p_req_ids[i]), 0);
        IF actual <> p_req_versions[i] THEN
            verdict := 3;
            place := i;
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Writes a change set that has passed its checks; false: another transaction has made the record meanwhile.
CREATE FUNCTION $schema.write_one(
    p_record bigint, p_space text, p_id text, p_expected bigint, p_primary text, p_secondary text, p_body bytea,
    p_at bigint, p_commit uuid, p_events bytea[], p_keys text[], p_key_versions bigint[], p_expiries bigint[],
    p_prints bytea[], p_outcomes bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_record bigint := p_record;
BEGIN
    IF v_record IS NULL THEN
        INSERT INTO $schema.records
            (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body)
            VALUES (p_space, p_id, p_expected + cardinality(p_events), p_primary, p_secondary, p_at, p_at, p_body)
            ON CONFLICT (space, id) DO NOTHING RETURNING record INTO v_record;
        IF v_record IS NULL THEN
            RETURN false;
        END IF;
    ELSE
        UPDATE $schema.records r SET version = p_expected + cardinality(p_events), primary_facet = p_primary,
            secondary_facet = p_secondary, updated_ms = p_at, body = p_body
            WHERE r.record = v_record AND r.version = p_expected;
        -- The law of the house, once more where it is carried out: no row, no move.
        IF NOT FOUND THEN
            RAISE EXCEPTION 'record % is not at version %', v_record, p_expected USING ERRCODE = 'internal_error';
        END IF;
    END IF;
    INSERT INTO $schema.events (record, version, commit_id, body)
        SELECT v_record, p_expected + e.place, p_commit, e.body FROM unnest(p_events) WITH ORDINALITY e (body, place);
    IF cardinality(p_keys) > 0 THEN
        -- Only an expired key can be there: the checks have seen to it.
        INSERT INTO $schema.idempotency_keys AS old (record, key, version, expires_ms, fingerprint, outcome)
            SELECT v_record, k.key, k.version, k.expires_ms, k.fingerprint, k.outcome
            FROM unnest(p_keys, p_key_versions, p_expiries, p_prints, p_outcomes)
                k (key, version, expires_ms, fingerprint, outcome)
            ON CONFLICT (record, key) DO UPDATE SET version = excluded.version, expires_ms = excluded.expires_ms,
                fingerprint = excluded.fingerprint, outcome = excluded.outcome;
    END IF;
    RETURN true;
END $$;

-- The conditional write of one record. `p_lock_ms` 0: a row that another transaction has locked is not waited for.
CREATE FUNCTION $schema.commit_one(
    p_space text, p_id text, p_expected bigint, p_life bigint, p_primary text, p_secondary text, p_body bytea,
    p_at bigint, p_commit uuid, p_events bytea[], p_keys text[], p_key_versions bigint[], p_expiries bigint[],
    p_prints bytea[], p_outcomes bytea[], p_req_spaces text[], p_req_ids text[], p_req_versions bigint[],
    p_lock_ms integer,
    OUT verdict integer, OUT contended boolean, OUT place integer, OUT actual bigint, OUT life bigint,
    OUT record bigint, OUT version bigint, OUT primary_facet text, OUT secondary_facet text,
    OUT created_ms bigint, OUT updated_ms bigint, OUT body bytea,
    OUT taken_keys text[], OUT taken_versions bigint[], OUT taken_prints bytea[], OUT taken_outcomes bytea[]
) LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        SELECT * INTO verdict, contended, place, actual, life, record, version, primary_facet, secondary_facet,
            created_ms, updated_ms, body, taken_keys, taken_versions, taken_prints, taken_outcomes
            FROM $schema.check_one(p_space, p_id, p_expected, p_life, p_at, p_keys,
                p_req_spaces, p_req_ids, p_req_versions, p_lock_ms);
        IF verdict <> 0 THEN
            RETURN;
        END IF;
        IF record IS NULL THEN
            -- An insert waits for one of the same name that is under way; not for ever.
            PERFORM set_config('lock_timeout', greatest(p_lock_ms, 100)::text, true);
        END IF;
        IF $schema.write_one(record, p_space, p_id, p_expected, p_primary, p_secondary, p_body, p_at, p_commit,
            p_events, p_keys, p_key_versions, p_expiries, p_prints, p_outcomes) THEN
            RETURN;
        END IF;
        -- Somebody else has made the record: the next check finds it.
    END LOOP;
END $$;

-- Tries what `write_one` does event by event and takes it all back: which event (from 1) or key breaks a rule of the
-- database, and which rule. `place` 0: the record itself.
CREATE FUNCTION $schema.find_culprit(
    p_record bigint, p_space text, p_id text, p_expected bigint, p_primary text, p_secondary text, p_body bytea,
    p_at bigint, p_commit uuid, p_events bytea[], p_keys text[], p_key_versions bigint[], p_expiries bigint[],
    p_prints bytea[], p_outcomes bytea[],
    OUT place integer, OUT reason text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_record bigint := p_record;
    v_none CONSTANT text[] := '{}';
BEGIN
    place := 0;
    BEGIN
        IF v_record IS NULL THEN
            INSERT INTO $schema.records
                (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body)
                VALUES (p_space, p_id, p_expected + 1, p_primary, p_secondary, p_at, p_at, p_body)
                RETURNING record INTO v_record;
        ELSE
            UPDATE $schema.records r SET primary_facet = p_primary, secondary_facet = p_secondary, body = p_body
                WHERE r.record = v_record;
        END IF;
        FOR i IN 1 .. cardinality(p_events) LOOP
            place := i;
            INSERT INTO $schema.events (record, version, commit_id, body)
                VALUES (v_record, p_expected + i, p_commit, p_events[i]);
        END LOOP;
        FOR i IN 1 .. cardinality(p_keys) LOOP
            place := p_key_versions[i] - p_expected;
            INSERT INTO $schema.idempotency_keys (record, key, version, expires_ms, fingerprint, outcome)
                VALUES (v_record, p_keys[i], p_key_versions[i], p_expiries[i], p_prints[i], p_outcomes[i])
                ON CONFLICT (record, key) DO UPDATE SET outcome = excluded.outcome;
        END LOOP;
        place := NULL;
        RAISE EXCEPTION USING ERRCODE = 'LK000';
    EXCEPTION
        WHEN SQLSTATE 'LK000' THEN reason := NULL;
        WHEN OTHERS THEN reason := SQLERRM;
    END;
END $$;

-- The conditional writes of many records at once, each for itself. The records are locked in the order of their names
-- and only if nobody has them locked; new ones first, since only an insert can wait. Says which sets (from 1) were
-- written; the others are to be committed singly, which tells why.
--
-- The settings make every plan run through the indexes, from the arrays: made once, and right for any table size.
CREATE FUNCTION $schema.commit_many(
    p_spaces text[], p_ids text[], p_expected bigint[], p_lives bigint[], p_counts bigint[], p_primary text[],
    p_secondary text[], p_bodies bytea[], p_ats bigint[], p_commits uuid[],
    p_event_sets integer[], p_event_versions bigint[], p_events bytea[],
    p_key_sets integer[], p_keys text[], p_key_versions bigint[], p_expiries bigint[], p_prints bytea[],
    p_outcomes bytea[],
    p_req_sets integer[], p_req_spaces text[], p_req_ids text[], p_req_versions bigint[]
) RETURNS integer[] LANGUAGE plpgsql
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
        PERFORM set_config('lock_timeout', '100', true);
        WITH made AS (
            INSERT INTO $schema.records
                (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body)
                SELECT s.space, s.id, s.count, s.primary_facet, s.secondary_facet, s.at, s.at, s.body
                FROM unnest(p_spaces, p_ids, p_expected, p_counts, p_primary, p_secondary, p_bodies, p_ats)
                    WITH ORDINALITY
                    s (space, id, expected, count, primary_facet, secondary_facet, body, at, place)
                WHERE s.expected = 0 AND s.place <> ALL (v_out)
                ORDER BY s.space, s.id
                ON CONFLICT (space, id) DO NOTHING RETURNING record, space, id
        )
        SELECT array_agg(s.place), array_agg(made.record) INTO v_places, v_found
            FROM made JOIN unnest(p_spaces, p_ids) WITH ORDINALITY s (space, id, place)
                ON s.space = made.space AND s.id = made.id;
        FOR i IN 1 .. coalesce(cardinality(v_places), 0) LOOP
            v_records[v_places[i]] := v_found[i];
            v_won := v_won || v_places[i];
        END LOOP;
    END IF;
    SELECT array_agg(l.place), array_agg(l.record) INTO v_places, v_found FROM (
        SELECT s.place, r.record
            FROM unnest(p_spaces, p_ids, p_expected, p_lives) WITH ORDINALITY s (space, id, expected, life, place)
            JOIN $schema.records r ON r.space = s.space AND r.id = s.id AND r.version = s.expected
            WHERE s.expected > 0 AND (s.life IS NULL OR s.life = v_life) AND s.place <> ALL (v_out)
            ORDER BY s.space, s.id FOR UPDATE OF r SKIP LOCKED) l;
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
CREATE FUNCTION $schema.confirm(p_space text, p_id text, p_keys text[], p_at bigint)
RETURNS TABLE (
    life bigint, version bigint,
    taken_keys text[], taken_versions bigint[], taken_prints bytea[], taken_outcomes bytea[]
) LANGUAGE sql STABLE AS $$
    SELECT $schema.life(), r.version, k.keys, k.versions, k.prints, k.outcomes
    FROM (SELECT 1) one
    LEFT JOIN $schema.records r ON r.space = p_space AND r.id = p_id
    LEFT JOIN LATERAL (
        SELECT array_agg(k.key) AS keys, array_agg(k.version) AS versions, array_agg(k.fingerprint) AS prints,
            array_agg(k.outcome) AS outcomes
        FROM $schema.idempotency_keys k
        WHERE k.record = r.record AND k.key = ANY (p_keys) AND k.expires_ms > p_at
    ) k ON true
$$;
