-- ARGV: token, lease, how long its name is barred afterwards (milliseconds; 0: not at all).
if not enter(ARGV[1]) then return another_life() end
local lease, barred = ARGV[2], tonumber(ARGV[3])
local row = read(lease)
-- Also if the lease is there: the ask that got it may not have been the last of its name.
if barred > 0 then call('SET', key('ended', lease), '', 'PX', int(barred)) end
if not row then return { 'none' } end
local ended = has_ended(row)
give_up(row)
if row.state == 'waits' then return { 'left' } end
if ended then return { 'lost', ended_since(row) } end
return { 'released' }
