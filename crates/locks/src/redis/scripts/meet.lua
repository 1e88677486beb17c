-- What a connection says first: which life of the server it has met.
-- ARGV: run id, replication id, whether the server was promoted (1) or has always been a master (0), uptime (seconds),
-- the longest time to live (milliseconds), the token that the caller knew lately and the run id of that life (empty:
-- none), a new token, the floor of fences, whether that was lifted above fences that may have been forgotten (1).
--
-- A life ends whenever the server may have forgotten a lease: it was restarted, another one was promoted, somebody
-- emptied it. After that nobody gets a lease before all that may have been forgotten have run out; they are as old as
-- the beginning of this life at least. Where nothing of ours was found and nobody knew any, it is used for the first
-- time. Answers the token and for how long nobody gets a lease; no token: the floor is to be lifted first.
local run, replication, promoted = ARGV[1], ARGV[2], ARGV[3] == '1'
-- The uptime is a difference of whole seconds: this may have begun a second later.
local started = math.min(now, now - (tonumber(ARGV[4]) - 1) * 1000)
local known, known_run = ARGV[6], ARGV[7]
local life = call('HMGET', KEYS[1], 'token', 'before', 'run', 'replication', 'opens', 'max_ttl', 'fence')
local token, before = life[1], life[2] or ''
opens, max_ttl = tonumber(life[5] or '0'), math.max(tonumber(ARGV[5]), tonumber(life[6] or '0'))

local function stay_closed(since) opens = math.max(opens, since + max_ttl) end

local function begin(old)
    before, token = old, ARGV[8]
end

local forgetful = true
if not token then
    begin(known)
    forgetful = known ~= ''
    if forgetful then stay_closed((known_run ~= run and not promoted) and started or now) end
elseif life[3] ~= run then
    begin(token)
    stay_closed(promoted and now or started)
elseif life[4] ~= replication and promoted then
    begin(token)
    stay_closed(now)
elseif known ~= '' and known ~= token and known ~= before then
    -- Emptied, and somebody who did not know that was here first.
    stay_closed(now)
else
    forgetful = false
end
if forgetful and ARGV[10] ~= '1' then return { '', '0' } end
local fence = math.max(tonumber(life[7] or '0'), tonumber(ARGV[9]))
call('HSET', KEYS[1], 'token', token, 'before', before, 'run', run, 'replication', replication, 'opens', int(opens),
    'max_ttl', int(max_ttl), 'fence', int(fence))
return { token, int(math.max(opens - now, 0)) }
