-- Dates: two times of each record, by which whoever tidies up looks through the records, oldest first. Both are the
-- record's creation until they are set, and are set together. What looks them up is the next migration's: this one keeps
-- readers away to the end of its transaction, so it is a short one.
ALTER TABLE $schema.records ADD COLUMN primary_date_ms bigint, ADD COLUMN secondary_date_ms bigint
