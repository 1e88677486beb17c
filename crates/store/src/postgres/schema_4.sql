-- Fences: of each lock's name the latest that was seen. A change set that carries an earlier one has no effect.
--
-- `touched_ms`: when it was last used, to the day (`limits`), so that most changes of a row leave the indexes alone.
CREATE TABLE $schema.fences (
    last       bigint NOT NULL CHECK (last BETWEEN 1 AND 9007199254740991),
    touched_ms bigint NOT NULL,
    resource   text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512)
) WITH (fillfactor = 70);
CREATE INDEX fences_by_touch ON $schema.fences (touched_ms);

-- Numbers that never fall.
CREATE TABLE $schema.counters (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value bigint NOT NULL
);

-- Holds the fences of a change set against the latest that were seen, and keeps them. `place` (from 1) is the first that
-- is late, in the order of their names; none: all are good, and stay so until this transaction ends, since whoever
-- brings a later one waits for it. Equal ones do not wait for each other.
--
-- The names are taken in the bytes' order, and after all records, so that nobody waits for each other in a circle.
CREATE FUNCTION $schema.keep_fences(
    p_resources text[], p_fences bigint[], p_at bigint, OUT place integer, OUT last bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_day CONSTANT bigint := 86400000;
    v_new record;
    v_old $schema.fences%ROWTYPE;
BEGIN
    FOR v_new IN SELECT n.resource, n.fence, n.place
        FROM unnest(p_resources, p_fences) WITH ORDINALITY n (resource, fence, place) ORDER BY n.resource COLLATE "C"
    LOOP
        LOOP
            SELECT * INTO v_old FROM $schema.fences f WHERE f.resource = v_new.resource;
            IF NOT FOUND THEN
                INSERT INTO $schema.fences (resource, last, touched_ms)
                    VALUES (v_new.resource, v_new.fence, p_at) ON CONFLICT (resource) DO NOTHING;
                EXIT WHEN FOUND;
            ELSIF v_old.last > v_new.fence THEN
                place := v_new.place;
                last := v_old.last;
                RETURN;
            ELSIF v_old.last = v_new.fence AND v_old.touched_ms > p_at - v_day THEN
                SELECT * INTO v_old FROM $schema.fences f WHERE f.resource = v_new.resource FOR SHARE;
                EXIT WHEN FOUND AND v_old.last = v_new.fence;
            ELSE
                UPDATE $schema.fences f SET last = v_new.fence,
                    touched_ms = CASE WHEN f.touched_ms > p_at - v_day THEN f.touched_ms ELSE p_at END
                    WHERE f.resource = v_new.resource AND f.last <= v_new.fence;
                EXIT WHEN FOUND;
            END IF;
            -- Another transaction came between: it is looked at again.
        END LOOP;
    END LOOP;
END $$;

-- `commit_one` (with `p_careful`: `commit_carefully`) for a set that carries fences; verdict 6: the fence at `place` (from
-- 1) is late, `actual` is the latest that was seen. Their rows are held by others no longer than a commit takes; with
-- `p_skip` they are not waited for longer than that.
CREATE FUNCTION $schema.commit_fenced(
    p_resources text[], p_fences bigint[], p_careful boolean,
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
BEGIN
    -- What the set has written before its fences are looked at is taken back if one is late.
    BEGIN
        IF p_careful THEN
            SELECT * INTO verdict, contended, place, actual, life, record, version, primary_facet, secondary_facet,
                created_ms, updated_ms, body, taken_keys, taken_versions, taken_prints, taken_outcomes, reason
                FROM $schema.commit_carefully(p_space, p_id, p_expected, p_life, p_primary, p_secondary, p_body, p_at,
                    p_commit, p_events, p_keys, p_key_versions, p_expiries, p_prints, p_outcomes,
                    p_req_spaces, p_req_ids, p_req_versions, p_lock_ms, p_skip);
        ELSE
            SELECT * INTO verdict, contended, place, actual, life, record, version, primary_facet, secondary_facet,
                created_ms, updated_ms, body, taken_keys, taken_versions, taken_prints, taken_outcomes
                FROM $schema.commit_one(p_space, p_id, p_expected, p_life, p_primary, p_secondary, p_body, p_at,
                    p_commit, p_events, p_keys, p_key_versions, p_expiries, p_prints, p_outcomes,
                    p_req_spaces, p_req_ids, p_req_versions, p_lock_ms, p_skip);
        END IF;
        IF verdict <> 0 THEN
            RETURN;
        END IF;
        IF p_skip THEN
            PERFORM set_config('lock_timeout', least(p_lock_ms, 100)::text, true);
        END IF;
        SELECT * INTO place, actual FROM $schema.keep_fences(p_resources, p_fences, p_at);
        IF place IS NULL THEN
            RETURN;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'LKF01', MESSAGE = 'a fence is late';
    EXCEPTION WHEN SQLSTATE 'LKF01' THEN
        verdict := 6;
        record := NULL;
    END;
END $$;

-- What the fences of this life of the store begin with: its seconds times 2^20 (a life's number is its milliseconds, drawn
-- at most one second ahead). Above all that were granted in the lives before, whatever has been lost of them, unless a
-- name was granted a million times a second.
CREATE FUNCTION $schema.life_floor() RETURNS bigint LANGUAGE sql AS $$
    SELECT least(greatest((($schema.life() - 1001) << 20) / 1000, 0), 9007199254740991)
$$;

-- Raises the number under which no fence is granted, and says what it is then.
CREATE FUNCTION $schema.fence_floor(p_at_least bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_most CONSTANT bigint := 9007199254740991;
    v_least bigint := least(greatest(p_at_least, $schema.life_floor()), v_most);
    v_floor bigint;
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT c.value INTO v_floor FROM $schema.counters c WHERE c.name = 'fence_floor';
    IF v_floor >= v_least THEN
        PERFORM $schema.wait_for_standby();
        RETURN v_floor;
    END IF;
    INSERT INTO $schema.counters AS old (name, value) VALUES ('fence_floor', v_least)
        ON CONFLICT (name) DO UPDATE SET value = greatest(old.value, excluded.value) RETURNING old.value INTO v_floor;
    RETURN v_floor;
END $$
