-- The feed: events in an order in which nothing appears before a place that a reader has passed.
--
-- A sequence would not do: its values are taken before the commit, in another order. So each event has the number of its
-- transaction, and a reader takes only those below the oldest transaction that is still open: whatever commits later is
-- behind them. Of one record the order is that of its versions, since whoever writes one begins after the one before was
-- committed. A default, so that nodes of the release before write it too; what is there already has the number of this
-- migration, and comes record by record.
ALTER TABLE $schema.events ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX events_by_feed ON $schema.events (xid, record, version);

-- Numbers of transactions that this cluster has not reached come from another: a dump was restored. They become those of
-- this transaction. Asked when a node starts: one look at the end of an index.
CREATE FUNCTION $schema.settle_feed() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_settled bigint;
BEGIN
    -- One statement, so that all of it is of one moment: what has been committed since has a number above its end, too.
    UPDATE $schema.events SET xid = pg_current_xact_id()
        WHERE xid >= (SELECT pg_snapshot_xmax(pg_current_snapshot()));
    GET DIAGNOSTICS v_settled = ROW_COUNT;
    RETURN v_settled;
END $$
