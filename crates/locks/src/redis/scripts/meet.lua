-- What a connection says first: which life of the server it has met.
-- ARGV: run id, replication id, whether the server was promoted (1) or has always been a master (0), uptime (seconds),
-- the longest time to live and the longest life of a place in a queue (milliseconds), the token that the caller knew
-- lately (empty: none), whether the floor was ever raised for such a server (1), a new token, the floor of fences, the
-- same lifted above fences that may have been forgotten.
--
-- A life ends whenever the server may have forgotten a lease: it was restarted, another one was promoted, somebody
-- emptied it. After that nobody gets a lease before all that may have been forgotten have run out. Where nothing of ours
-- is found, they may have been given until now: by this server before it was emptied, or by another one that had its
-- address. Only where nobody knows of any, it is used for the first time.
-- Answers the token, for how long nobody gets a lease, the longest time to live, the last fence.
local run, replication, promoted = ARGV[1], ARGV[2], ARGV[3] == '1'
-- The uptime is a difference of whole seconds: this may have begun a second later.
local started = math.min(now, now - (tonumber(ARGV[4]) - 1) * 1000)
local known, used, lifted = ARGV[7], ARGV[8] == '1', true
local life = call('HMGET', KEYS[1], 'token', 'before', 'run', 'replication', 'since', 'max_ttl', 'place_max', 'fence')
local token, before = life[1], life[2] or ''
-- Of nodes that differ the longest counts, also for a time that another one began.
max_ttl = math.max(tonumber(ARGV[5]), tonumber(life[6] or '0'))
local place_max = math.max(tonumber(ARGV[6]), tonumber(life[7] or '0'))
since = math.min(tonumber(life[5] or '0'), now)

local function begin(old) before, token = old, ARGV[9] end

local function close(from) since = math.max(since, from) end

if not token then
    begin(known)
    if known ~= '' or used then close(now) end
elseif life[3] ~= run then
    begin(token)
    close(promoted and now or started)
elseif life[4] ~= replication and promoted then
    begin(token)
    close(now)
elseif known ~= '' and known ~= token and known ~= before then
    -- Emptied, and somebody who did not know that was here first.
    close(now)
else
    lifted = false
end
local fence = math.max(tonumber(life[8] or '0'), tonumber(lifted and ARGV[11] or ARGV[10]))
call('HSET', KEYS[1], 'token', token, 'before', before, 'run', run, 'replication', replication, 'since', int(since),
    'max_ttl', int(max_ttl), 'place_max', int(place_max), 'fence', int(fence))
return { token, int(math.max(since + max_ttl - now, 0)), int(max_ttl), int(fence) }
