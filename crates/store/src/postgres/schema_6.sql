-- Alarms: when somebody wants to look at a record again. `due_ms` as it was set, by whoever set it; whether it is due is
-- told by this server's clock. Who takes one in hand claims it for a while, so that nodes share the work; a claim is
-- advice.
CREATE TABLE $schema.alarms (
    record           bigint PRIMARY KEY,
    due_ms           bigint NOT NULL CHECK (due_ms >= 0),
    claimed_until_ms bigint NOT NULL DEFAULT 0
-- Room for the claims, which leave the indexes alone.
) WITH (fillfactor = 70);
CREATE INDEX alarms_by_due ON $schema.alarms (due_ms);

-- Sets the alarm of a record whose row this transaction has locked; below 0: there is none any more.
CREATE FUNCTION $schema.put_alarm(p_record bigint, p_alarm bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_alarm < 0 THEN
        DELETE FROM $schema.alarms a WHERE a.record = p_record;
    ELSE
        INSERT INTO $schema.alarms AS old (record, due_ms) VALUES (p_record, p_alarm)
            ON CONFLICT (record) DO UPDATE SET due_ms = excluded.due_ms, claimed_until_ms = 0;
    END IF;
END $$;

-- The same by the record's name.
CREATE FUNCTION $schema.put_alarm_of(p_space text, p_id text, p_alarm bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM $schema.put_alarm(
        (SELECT r.record FROM $schema.records r WHERE r.space = p_space AND r.id = p_id), p_alarm);
END $$;

-- Sets an alarm if the record is at a version and nobody is changing it; says whether it did.
CREATE FUNCTION $schema.set_alarm(p_space text, p_id text, p_version bigint, p_alarm bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_record bigint;
BEGIN
    SELECT r.record INTO v_record FROM $schema.records r
        WHERE r.space = p_space AND r.id = p_id AND r.version = p_version FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM $schema.put_alarm(v_record, p_alarm);
    RETURN true;
END $$;

-- `commit_one` (with `p_careful`: `commit_carefully`), or `commit_fenced` where there are fences, for a set that sets its
-- record's alarm. The alarm's row is waited for no longer than a claim takes.
CREATE FUNCTION $schema.commit_alarmed(
    p_alarm bigint, p_resources text[], p_fences bigint[], p_careful boolean,
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
    IF cardinality(p_resources) > 0 THEN
        SELECT * INTO verdict, contended, place, actual, life, record, version, primary_facet, secondary_facet,
            created_ms, updated_ms, body, taken_keys, taken_versions, taken_prints, taken_outcomes, reason
            FROM $schema.commit_fenced(p_resources, p_fences, p_careful, p_space, p_id, p_expected, p_life, p_primary,
                p_secondary, p_body, p_at, p_commit, p_events, p_keys, p_key_versions, p_expiries, p_prints,
                p_outcomes, p_req_spaces, p_req_ids, p_req_versions, p_lock_ms, p_skip);
    ELSIF p_careful THEN
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
    IF verdict = 0 THEN
        PERFORM $schema.put_alarm_of(p_space, p_id, p_alarm);
    END IF;
END $$;

-- `commit_many`, and then the alarms of those that were written. Each alarm hangs on a record that is locked here, so that
-- two of these never wait for each other.
CREATE FUNCTION $schema.commit_many_alarmed(
    p_spaces text[], p_ids text[], p_expected bigint[], p_lives bigint[], p_counts bigint[], p_primary text[],
    p_secondary text[], p_bodies bytea[], p_ats bigint[], p_commits uuid[],
    p_event_sets integer[], p_event_versions bigint[], p_events bytea[],
    p_key_sets integer[], p_keys text[], p_key_versions bigint[], p_expiries bigint[], p_prints bytea[],
    p_outcomes bytea[],
    p_req_sets integer[], p_req_spaces text[], p_req_ids text[], p_req_versions bigint[], p_lock_ms integer,
    p_alarm_sets integer[], p_alarms bigint[]
) RETURNS integer[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_won integer[];
BEGIN
    v_won := $schema.commit_many(p_spaces, p_ids, p_expected, p_lives, p_counts, p_primary, p_secondary, p_bodies, p_ats,
        p_commits, p_event_sets, p_event_versions, p_events, p_key_sets, p_keys, p_key_versions, p_expiries, p_prints,
        p_outcomes, p_req_sets, p_req_spaces, p_req_ids, p_req_versions, p_lock_ms);
    INSERT INTO $schema.alarms AS old (record, due_ms)
        SELECT r.record, a.due_ms FROM unnest(p_alarm_sets, p_alarms) a (place, due_ms)
        JOIN $schema.records r ON r.space = p_spaces[a.place] AND r.id = p_ids[a.place]
        WHERE a.due_ms >= 0 AND a.place = ANY (v_won)
        ON CONFLICT (record) DO UPDATE SET due_ms = excluded.due_ms, claimed_until_ms = 0;
    DELETE FROM $schema.alarms old USING unnest(p_alarm_sets, p_alarms) a (place, due_ms)
        JOIN $schema.records r ON r.space = p_spaces[a.place] AND r.id = p_ids[a.place]
        WHERE a.due_ms < 0 AND a.place = ANY (v_won) AND old.record = r.record;
    RETURN v_won;
END $$;

-- What is due and not claimed, oldest first, claimed from here on for `p_claim_ms`; and the next that is not due yet. A
-- claim that is twice as far ahead is none: a clock was set back. (One that is a little further ahead is that of a session
-- that looked at the clock a moment later.) Nothing of it needs to be on disk: a claim that is lost is
-- one that has run out.
CREATE FUNCTION $schema.claim_alarms(
    p_limit integer, p_claim_ms bigint,
    OUT now_ms bigint, OUT next_ms bigint, OUT spaces text[], OUT ids text[], OUT dues bigint[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    now_ms := v_now;
    WITH picked AS (
        SELECT a.record FROM $schema.alarms a
        WHERE a.due_ms <= v_now AND (a.claimed_until_ms <= v_now OR a.claimed_until_ms > v_now + 2 * p_claim_ms)
        ORDER BY a.due_ms LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE $schema.alarms a SET claimed_until_ms = v_now + p_claim_ms FROM picked p WHERE a.record = p.record
            RETURNING a.record, a.due_ms
    )
    SELECT array_agg(r.space::text ORDER BY c.due_ms, c.record), array_agg(r.id::text ORDER BY c.due_ms, c.record),
        array_agg(c.due_ms ORDER BY c.due_ms, c.record)
        INTO spaces, ids, dues FROM claimed c JOIN $schema.records r ON r.record = c.record;
    next_ms := (SELECT a.due_ms FROM $schema.alarms a WHERE a.due_ms > v_now ORDER BY a.due_ms LIMIT 1);
END $$
