-- ARGV: token, lease, how long its name is barred afterwards (milliseconds; 0: not at all).
if not enter(ARGV[1]) then return another_life() end
local lease, barred = ARGV[2], tonumber(ARGV[3])
local row = read(lease)
local live = row and row.state == 'held' and row.ends > now
if barred > 0 and not live then call('SET', key('ended', lease), '', 'PX', int(barred)) end
if not row then return { 'none' } end
give_up(row)
if row.state == 'waits' then return { 'left' } end
if live then return { 'released' } end
return { 'lost', int(row.ends) }
