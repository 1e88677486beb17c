-- The conditional write, as functions: one call is one round trip, and works through a pooler that gives each
-- transaction another connection (no prepared statements, no settings that outlive the transaction).
--
-- A function that nodes of an older release call is never changed: a later migration adds one under another name.

-- The life of this history. Another begins where the server's timeline (a standby was promoted, a backup recovered) or
-- the table itself (a dump was restored) is not that of the last one. Its number is drawn, and grows: of two standbys
-- promoted from one timeline both have the same next one, and yet they are not the same. A storage snapshot put back
-- is not seen here: whoever does that must insert a life.
--
-- Fails on a server in recovery: what is asked here is asked of the primary.
CREATE FUNCTION $schema.life() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_timeline CONSTANT bigint := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
    v_home CONSTANT oid := '$schema.records'::regclass;
    v_last $schema.lives%ROWTYPE;
BEGIN
    SELECT * INTO v_last FROM $schema.lives l ORDER BY l.life DESC LIMIT 1;
    IF v_last.timeline = v_timeline AND v_last.home = v_home THEN
        RETURN v_last.life;
    END IF;
    -- Rare: whoever comes first begins it, the others find it.
    PERFORM pg_advisory_xact_lock(1282100081, v_home::bigint::bit(32)::integer);
    SELECT * INTO v_last FROM $schema.lives l ORDER BY l.life DESC LIMIT 1;
    IF v_last.timeline = v_timeline AND v_last.home = v_home THEN
        RETURN v_last.life;
    END IF;
    INSERT INTO $schema.lives (life, timeline, home) VALUES (
        greatest(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, coalesce(v_last.life, 0))
            + 1 + floor(random() * 1000)::bigint, v_timeline, v_home)
        RETURNING life INTO v_last.life;
    RETURN v_last.life;
END $$;

-- Called where what another transaction has committed is about to be told as acknowledged. It may have been seen before
-- the synchronous standby has it (its wait was cut short by a crash or a cancellation); a commit that writes waits
-- until the standby has everything before it.
CREATE FUNCTION $schema.wait_for_standby() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_standby_names') <> '' THEN
        IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        PERFORM pg_logical_emit_message(true, 'lockkeeper', '');
    END IF;
END $$;

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
-- taken, 3 a requirement does not hold, 4 locked by another transaction (told only with `p_skip`, which does not wait
-- for it). Without `p_expected` it locks the row, whatever its version, and finds the keys. `p_lock_ms` bounds each
-- wait for a lock, of whatever kind, so that a call that nobody hears any more ends too.
CREATE FUNCTION $schema.check_one(
    p_space text, p_id text, p_expected bigint, p_life bigint, p_at bigint, p_keys text[],
    p_req_spaces text[], p_req_ids text[], p_req_versions bigint[], p_lock_ms integer, p_skip boolean,
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
    PERFORM set_config('lock_timeout', p_lock_ms::text, true);
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
            IF p_skip THEN
                verdict := 4;
                RETURN;
            END IF;
            SELECT * INTO v_row FROM $schema.records r WHERE r.space = p_space AND r.id = p_id FOR UPDATE;
        END IF;
        EXIT WHEN p_expected IS NULL OR v_row.version = p_expected;
    END LOOP;
    record := v_row.record;
    IF taken_keys IS NULL AND record IS NOT NULL AND (p_expected IS NULL OR v_row.version <> p_expected) THEN
        SELECT t.keys, t.versions, t.prints, t.outcomes INTO taken_keys, taken_versions, taken_prints, taken_outcomes
            FROM $schema.taken(v_row.record, p_keys, p_at) t;
    END IF;
    IF taken_keys IS NOT NULL THEN
        PERFORM $schema.wait_for_standby();
        IF p_expected IS NOT NULL THEN
            verdict := 2;
            RETURN;
        END IF;
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

-- The conditional write of one record. With `p_skip` a row that another transaction has locked is not waited for.
CREATE FUNCTION $schema.commit_one(
    p_space text, p_id text, p_expected bigint, p_life bigint, p_primary text, p_secondary text, p_body bytea,
    p_at bigint, p_commit uuid, p_events bytea[], p_keys text[], p_key_versions bigint[], p_expiries bigint[],
    p_prints bytea[], p_outcomes bytea[], p_req_spaces text[], p_req_ids text[], p_req_versions bigint[],
    p_lock_ms integer, p_skip boolean,
    OUT verdict integer, OUT contended boolean, OUT place integer, OUT actual bigint, OUT life bigint,
    OUT record bigint, OUT version bigint, OUT primary_facet text, OUT secondary_facet text,
    OUT created_ms bigint, OUT updated_ms bigint, OUT body bytea,
    OUT taken_keys text[], OUT taken_versions bigint[], OUT taken_prints bytea[], OUT taken_outcomes bytea[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOOP
        SELECT * INTO verdict, contended, place, actual, life, record, version, primary_facet, secondary_facet,
            created_ms, updated_ms, body, taken_keys, taken_versions, taken_prints, taken_outcomes
            FROM $schema.check_one(p_space, p_id, p_expected, p_life, p_at, p_keys,
                p_req_spaces, p_req_ids, p_req_versions, p_lock_ms, p_skip);
        IF verdict <> 0 THEN
            RETURN;
        END IF;
        IF record IS NULL AND p_skip THEN
            -- An insert waits for one of the same name that is under way: here not for long.
            PERFORM set_config('lock_timeout', least(p_lock_ms, 100)::text, true);
        END IF;
        IF $schema.write_one(record, p_space, p_id, p_expected, p_primary, p_secondary, p_body, p_at, p_commit,
            p_events, p_keys, p_key_versions, p_expiries, p_prints, p_outcomes) THEN
            RETURN;
        END IF;
        -- Somebody else has made the record: the next check finds it.
    END LOOP;
END $$;

-- The same for a set that breaks a rule of the database: verdict 5, with the event (from 1; 0: the record itself) at
-- which it does. It checks again, under the row's lock: whoever is refused is refused for what is so now.
CREATE FUNCTION $schema.commit_carefully(
    p_space text, p_id text, p_expected bigint, p_life bigint, p_primary text, p_secondary text, p_body bytea,
    p_at bigint, p_commit uuid, p_events bytea[], p_keys text[], p_key_versions bigint[], p_expiries bigint[],
    p_prints bytea[], p_outcomes bytea[], p_req_spaces text[], p_req_ids text[], p_req_versions bigint[],
    p_lock_ms integer, p_skip boolean,
    OUT verdict integer, OUT contended boolean, OUT place integer, OUT actual bigint, OUT life bigint,
    OUT record bigint, OUT version bigint, OUT primary_facet text, OUT secondary_facet text,
    OUT created_ms bigint, OUT updated_ms bigint, OUT body bytea,
    OUT taken_keys text[], OUT taken_versions bigint[], OUT taken_prints bytea[], OUT taken_outcomes bytea[],
    OUT reason text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_record bigint;
BEGIN
    LOOP
        SELECT * INTO verdict, contended, place, actual, life, record, version, primary_facet, secondary_facet,
            created_ms, updated_ms, body, taken_keys, taken_versions, taken_prints, taken_outcomes
            FROM $schema.check_one(p_space, p_id, p_expected, p_life, p_at, p_keys,
                p_req_spaces, p_req_ids, p_req_versions, p_lock_ms, p_skip);
        IF verdict <> 0 THEN
            RETURN;
        END IF;
        IF record IS NULL AND p_skip THEN
            PERFORM set_config('lock_timeout', least(p_lock_ms, 100)::text, true);
        END IF;
        v_record := record;
        place := 0;
        BEGIN
            IF v_record IS NULL THEN
                INSERT INTO $schema.records
                    (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body)
                    VALUES (p_space, p_id, p_expected + cardinality(p_events), p_primary, p_secondary, p_at, p_at,
                        p_body)
                    ON CONFLICT (space, id) DO NOTHING RETURNING record INTO v_record;
            ELSE
                UPDATE $schema.records r SET version = p_expected + cardinality(p_events), primary_facet = p_primary,
                    secondary_facet = p_secondary, updated_ms = p_at, body = p_body
                    WHERE r.record = v_record AND r.version = p_expected;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'record % is not at version %', v_record, p_expected USING ERRCODE = 'internal_error';
                END IF;
            END IF;
            FOR i IN 1 .. CASE WHEN v_record IS NULL THEN 0 ELSE cardinality(p_events) END LOOP
                place := i;
                INSERT INTO $schema.events (record, version, commit_id, body)
                    VALUES (v_record, p_expected + i, p_commit, p_events[i]);
            END LOOP;
            FOR i IN 1 .. CASE WHEN v_record IS NULL THEN 0 ELSE cardinality(p_keys) END LOOP
                place := p_key_versions[i] - p_expected;
                INSERT INTO $schema.idempotency_keys AS old (record, key, version, expires_ms, fingerprint, outcome)
                    VALUES (v_record, p_keys[i], p_key_versions[i], p_expiries[i], p_prints[i], p_outcomes[i])
                    ON CONFLICT (record, key) DO UPDATE SET version = excluded.version,
                        expires_ms = excluded.expires_ms, fingerprint = excluded.fingerprint,
                        outcome = excluded.outcome;
            END LOOP;
            IF v_record IS NOT NULL THEN
                RETURN;
            END IF;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR with_check_option_violation
            OR program_limit_exceeded OR raise_exception THEN
            verdict := 5;
            reason := SQLERRM;
            RETURN;
        END;
    END LOOP;
END $$;
