-- Leases: rows that `lease::law` reads and writes. A request is two round trips: `lease_open` locks what it concerns and
-- tells the rows, the law decides, `lease_write` writes; COMMIT goes along with it.

-- A lease has a row for each of its names. `capacity` is how many may hold the name as far as this one is concerned.
CREATE TABLE $schema.lease_holders (
    lease      uuid    NOT NULL,
    fence      bigint  NOT NULL CHECK (fence > 0),
    since_ms   bigint  NOT NULL,
    expires_ms bigint  NOT NULL,
    ttl_ms     bigint  NOT NULL CHECK (ttl_ms > 0),
    capacity   integer NOT NULL CHECK (capacity > 0),
    names      integer NOT NULL CHECK (names > 0),
    resource   text COLLATE "C" NOT NULL CHECK (octet_length(resource) BETWEEN 1 AND 512),
    owner      text COLLATE "C" NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 512),
    host       text COLLATE "C" NOT NULL CHECK (octet_length(host) BETWEEN 1 AND 512),
    PRIMARY KEY (resource, lease)
-- Room for the renewals, which leave the indexes alone.
) WITH (fillfactor = 70);
CREATE INDEX lease_holders_by_lease ON $schema.lease_holders (lease);

CREATE TABLE $schema.lease_waiters (
    ticket    bigint  NOT NULL,
    lease     uuid    NOT NULL,
    since_ms  bigint  NOT NULL,
    lapses_ms bigint  NOT NULL,
    capacity  integer NOT NULL CHECK (capacity > 0),
    resource  text COLLATE "C" NOT NULL CHECK (octet_length(resource) BETWEEN 1 AND 512),
    owner     text COLLATE "C" NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 512),
    host      text COLLATE "C" NOT NULL CHECK (octet_length(host) BETWEEN 1 AND 512),
    cycle     text COLLATE "C",
    PRIMARY KEY (resource, ticket)
);
CREATE INDEX lease_waiters_by_lease ON $schema.lease_waiters (lease);
CREATE INDEX lease_waiters_by_lapse ON $schema.lease_waiters (resource, lapses_ms);

CREATE TABLE $schema.lease_ended (
    lease    uuid   PRIMARY KEY,
    until_ms bigint NOT NULL
);
CREATE INDEX lease_ended_by_time ON $schema.lease_ended (until_ms);

-- What a lock on a name, or on a lease, is called. Two that are called the same only wait for each other.
CREATE FUNCTION $schema.lease_key(p_name text) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT hashtext(p_name COLLATE "C") # '$schema.lease_holders'::regclass::oid::bigint::bit(32)::integer
$$;

-- The names that requests concern: those that they tell, those that their leases hold or wait for, and all names of
-- whoever holds one that is to be taken away.
CREATE FUNCTION $schema.lease_names(p_leases uuid[], p_resources text[], p_forced text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_names text[];
BEGIN
    SELECT coalesce(array_agg(DISTINCT n.resource COLLATE "C"), '{}') INTO v_names FROM (
        SELECT unnest(p_resources || p_forced) COLLATE "C"
        UNION ALL SELECT h.resource COLLATE "C" FROM $schema.lease_holders h WHERE h.lease = ANY (p_leases)
        UNION ALL SELECT w.resource COLLATE "C" FROM $schema.lease_waiters w WHERE w.lease = ANY (p_leases)
        UNION ALL SELECT h.resource COLLATE "C" FROM $schema.lease_holders f
            JOIN $schema.lease_holders h ON h.lease = f.lease WHERE f.resource = ANY (p_forced)
    ) n (resource);
    RETURN v_names;
END $$;

-- Locks what requests concern until the transaction ends, and tells its rows: of each name all holders, the first
-- `p_waiters` in its queue, those of the requests' own leases, those that have lapsed (a bounded number), and with
-- `p_count` how many there are in all.
--
-- Leases are locked before names, both in the order of their keys, so that nobody waits in a circle. Only whoever has a
-- lease locked adds rows of it; so once it is, its names are known. Those of a holder that is to be taken away may still
-- grow until its name is locked; what they have grown by is not waited for.
--
-- Fails with LKL01 if such a name could not be had (to be tried again), and with LKL02 if there are more than
-- `p_names_max` names: each takes a place in a table of the server that all sessions share.
CREATE FUNCTION $schema.lease_open(
    p_leases uuid[], p_resources text[], p_forced text[], p_waiters integer, p_count boolean, p_names_max integer,
    p_lock_ms integer,
    OUT now_ms bigint, OUT fence_floor bigint, OUT ticket bigint,
    OUT h_resources text[], OUT h_leases uuid[], OUT h_capacities integer[], OUT h_fences bigint[],
    OUT h_sinces bigint[], OUT h_expiries bigint[], OUT h_ttls bigint[], OUT h_owners text[], OUT h_hosts text[],
    OUT h_names integer[],
    OUT w_resources text[], OUT w_tickets bigint[], OUT w_leases uuid[], OUT w_capacities integer[],
    OUT w_sinces bigint[], OUT w_lapses bigint[], OUT w_owners text[], OUT w_hosts text[], OUT w_cycles text[],
    OUT f_resources text[], OUT f_lasts bigint[], OUT e_leases uuid[], OUT e_untils bigint[],
    OUT c_resources text[], OUT c_counts bigint[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_lapsed CONSTANT integer := 1000;
    v_names text[];
    v_again text[];
    v_got boolean;
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('lock_timeout', p_lock_ms::text, true);
    fence_floor := greatest($schema.life_floor(),
        (SELECT c.value FROM $schema.counters c WHERE c.name = 'fence_floor'));
    PERFORM pg_advisory_xact_lock(1282100082, k.key)
        FROM (SELECT DISTINCT $schema.lease_key(l.lease::text) FROM unnest(p_leases) l (lease) ORDER BY 1) k (key);
    v_names := $schema.lease_names(p_leases, p_resources, p_forced);
    IF cardinality(v_names) > p_names_max THEN
        RAISE EXCEPTION USING ERRCODE = 'LKL02', MESSAGE = 'too many names at once';
    END IF;
    PERFORM pg_advisory_xact_lock(1282100083, k.key)
        FROM (SELECT DISTINCT $schema.lease_key(n.name) FROM unnest(v_names) n (name) ORDER BY 1) k (key);
    WHILE cardinality(p_forced) > 0 LOOP
        v_again := $schema.lease_names(p_leases, p_resources, p_forced);
        EXIT WHEN v_again <@ v_names;
        SELECT bool_and(pg_try_advisory_xact_lock(1282100083, $schema.lease_key(n.name))) INTO v_got
            FROM unnest(v_again) n (name);
        IF NOT v_got THEN
            RAISE EXCEPTION USING ERRCODE = 'LKL01', MESSAGE = 'names are being changed by another';
        END IF;
        v_names := v_names || v_again;
    END LOOP;
    now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    -- Above all that stand in these queues, and by the clock where there is none: whoever came first has the lowest.
    SELECT greatest(floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, coalesce(max(last.ticket) + 1, 0))
        INTO ticket FROM unnest(v_names) n (name) CROSS JOIN LATERAL (
            SELECT w.ticket FROM $schema.lease_waiters w WHERE w.resource = n.name ORDER BY w.ticket DESC LIMIT 1) last;
    SELECT array_agg(h.resource::text), array_agg(h.lease), array_agg(h.capacity), array_agg(h.fence),
            array_agg(h.since_ms), array_agg(h.expires_ms), array_agg(h.ttl_ms), array_agg(h.owner::text),
            array_agg(h.host::text), array_agg(h.names)
        INTO h_resources, h_leases, h_capacities, h_fences, h_sinces, h_expiries, h_ttls, h_owners, h_hosts, h_names
        FROM $schema.lease_holders h WHERE h.resource = ANY (v_names);
    SELECT array_agg(w.resource::text), array_agg(w.ticket), array_agg(w.lease), array_agg(w.capacity),
            array_agg(w.since_ms), array_agg(w.lapses_ms), array_agg(w.owner::text), array_agg(w.host::text),
            array_agg(w.cycle::text)
        INTO w_resources, w_tickets, w_leases, w_capacities, w_sinces, w_lapses, w_owners, w_hosts, w_cycles
        FROM (
            SELECT first.* FROM (SELECT DISTINCT u.name FROM unnest(v_names) u (name)) n CROSS JOIN LATERAL (
                -- The sum keeps the index by lapse out: they are read in the order of their tickets, and no more of them.
                SELECT * FROM $schema.lease_waiters w WHERE w.resource = n.name AND w.lapses_ms + 0 > now_ms
                ORDER BY w.ticket LIMIT p_waiters) first
            UNION SELECT lapsed.* FROM (SELECT DISTINCT u.name FROM unnest(v_names) u (name)) n CROSS JOIN LATERAL (
                SELECT * FROM $schema.lease_waiters w WHERE w.resource = n.name AND w.lapses_ms <= now_ms
                ORDER BY w.lapses_ms LIMIT v_lapsed) lapsed
            UNION SELECT own.* FROM $schema.lease_waiters own WHERE own.lease = ANY (p_leases)
        ) w;
    SELECT array_agg(f.resource::text), array_agg(f.last) INTO f_resources, f_lasts
        FROM $schema.fences f WHERE f.resource = ANY (v_names);
    SELECT array_agg(e.lease), array_agg(e.until_ms) INTO e_leases, e_untils
        FROM $schema.lease_ended e WHERE e.lease = ANY (p_leases) AND e.until_ms > now_ms;
    IF p_count THEN
        SELECT array_agg(w.resource::text), array_agg(w.count) INTO c_resources, c_counts FROM (
            SELECT w.resource, count(*) FROM $schema.lease_waiters w WHERE w.resource = ANY (v_names) GROUP BY 1) w;
    END IF;
END $$;

-- Writes what the law has decided. A fence is above the one that was told (0: none was); LKL01 if a commit has brought
-- another meanwhile.
CREATE FUNCTION $schema.lease_write(
    p_now_ms bigint,
    p_gone_resources text[], p_gone_leases uuid[],
    p_h_resources text[], p_h_leases uuid[], p_h_capacities integer[], p_h_fences bigint[], p_h_sinces bigint[],
    p_h_expiries bigint[], p_h_ttls bigint[], p_h_owners text[], p_h_hosts text[], p_h_names integer[],
    p_left_resources text[], p_left_leases uuid[],
    p_w_resources text[], p_w_tickets bigint[], p_w_leases uuid[], p_w_capacities integer[], p_w_sinces bigint[],
    p_w_lapses bigint[], p_w_owners text[], p_w_hosts text[], p_w_cycles text[],
    p_e_leases uuid[], p_e_untils bigint[],
    p_f_resources text[], p_f_before bigint[], p_f_lasts bigint[]
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_day CONSTANT bigint := 86400000;
    v_forgotten CONSTANT integer := 1000;
    v_new record;
BEGIN
    IF cardinality(p_gone_leases) > 0 THEN
        DELETE FROM $schema.lease_holders h USING unnest(p_gone_resources, p_gone_leases) g (resource, lease)
            WHERE h.resource = g.resource AND h.lease = g.lease;
    END IF;
    IF cardinality(p_h_leases) > 0 THEN
        INSERT INTO $schema.lease_holders
            (resource, lease, capacity, fence, since_ms, expires_ms, ttl_ms, owner, host, names)
            SELECT * FROM unnest(p_h_resources, p_h_leases, p_h_capacities, p_h_fences, p_h_sinces, p_h_expiries,
                p_h_ttls, p_h_owners, p_h_hosts, p_h_names)
            ON CONFLICT (resource, lease) DO UPDATE SET capacity = excluded.capacity, fence = excluded.fence,
                since_ms = excluded.since_ms, expires_ms = excluded.expires_ms, ttl_ms = excluded.ttl_ms,
                owner = excluded.owner, host = excluded.host, names = excluded.names;
    END IF;
    IF cardinality(p_left_leases) > 0 THEN
        DELETE FROM $schema.lease_waiters w USING unnest(p_left_resources, p_left_leases) l (resource, lease)
            WHERE w.lease = l.lease AND w.resource = l.resource;
    END IF;
    IF cardinality(p_w_leases) > 0 THEN
        INSERT INTO $schema.lease_waiters
            (resource, ticket, lease, capacity, since_ms, lapses_ms, owner, host, cycle)
            SELECT * FROM unnest(p_w_resources, p_w_tickets, p_w_leases, p_w_capacities, p_w_sinces, p_w_lapses,
                p_w_owners, p_w_hosts, p_w_cycles)
            ON CONFLICT (resource, ticket) DO UPDATE SET lapses_ms = excluded.lapses_ms, cycle = excluded.cycle;
    END IF;
    IF cardinality(p_e_leases) > 0 THEN
        DELETE FROM $schema.lease_ended e WHERE e.lease IN (SELECT o.lease FROM $schema.lease_ended o
            WHERE o.until_ms <= p_now_ms ORDER BY o.until_ms LIMIT v_forgotten FOR UPDATE SKIP LOCKED);
        INSERT INTO $schema.lease_ended (lease, until_ms) SELECT * FROM unnest(p_e_leases, p_e_untils)
            ON CONFLICT (lease) DO UPDATE SET until_ms = excluded.until_ms;
    END IF;
    -- The names in the bytes' order, and after everything else: see `keep_fences`.
    FOR v_new IN SELECT n.resource, n.before, n.last
        FROM unnest(p_f_resources, p_f_before, p_f_lasts) n (resource, before, last) ORDER BY n.resource COLLATE "C"
    LOOP
        UPDATE $schema.fences f SET last = v_new.last,
            touched_ms = CASE WHEN f.touched_ms > p_now_ms - v_day THEN f.touched_ms ELSE p_now_ms END
            WHERE f.resource = v_new.resource AND f.last <= v_new.before;
        CONTINUE WHEN FOUND;
        INSERT INTO $schema.fences (resource, last, touched_ms) VALUES (v_new.resource, v_new.last, p_now_ms)
            ON CONFLICT (resource) DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'LKL01', MESSAGE = 'a later fence has come meanwhile';
        END IF;
    END LOOP;
END $$;

-- Where nodes tell each other of those who are to ask again: one of this schema.
CREATE FUNCTION $schema.lease_channel() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'lockkeeper_' || '$schema.lease_holders'::regclass::oid
$$
