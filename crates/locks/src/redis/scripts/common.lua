-- Leases in Redis, by the law of lockkeeper_store::lease::law. This part stands before each of the scripts; every one
-- of them is one turn of the law, and runs alone.
--
-- KEYS[1] is the hash `life`; all other keys have its prefix, and with it its hash tag, so that they are in one slot:
--   life             token: drawn for each life of the server · since: what was given before may have been forgotten, so
--                    that nobody gets a lease for max_ttl from then · max_ttl, place_max: the longest of all nodes ·
--                    fence: the last one given · ticket: the last one drawn
--   lease:LEASE      hash: state (held, waits), owner, host, since, ends, ttl, names, ticket, node,
--                    and for each name a field `/NAME`: its capacity, and once it is held the fence
--   held:NAME        sorted set: lease -> when it ends          capacity:NAME   lease -> how many may hold
--   waiting:NAME     sorted set: lease -> ticket                lapses:NAME     lease -> when its place ends
--   names            all names in use, for lists                until           name -> when nothing of it can be left
--   ended:LEASE      an attempt that was ended
-- Times are milliseconds by this server's clock. Numbers are doubles: exact below 2^53, and written with %.0f.
-- Every key but `life` has an expiry; `life` is one small hash.

local call = redis.call
local PREFIX = KEYS[1]:sub(1, -5)
local FENCE_MAX = 9007199254740991
-- How long the end of a lease is remembered, for its holder to hear of.
local LOST_KEPT = 60000
-- Arguments of one command: Lua's stack has room for some thousands.
local CHUNK = 1000

local clock = call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function int(number) return string.format('%.0f', number) end

local function key(kind, name) return PREFIX .. kind .. ':' .. name end

-- Set by `enter`.
local max_ttl, kept, since

-- False: the caller has met another life of the server, or this one has forgotten it.
local function enter(token)
    local life = call('HMGET', KEYS[1], 'token', 'max_ttl', 'place_max', 'since')
    if life[1] ~= token then return false end
    max_ttl, since = tonumber(life[2]), tonumber(life[4])
    kept = int(math.max(max_ttl, tonumber(life[3])) + LOST_KEPT)
    return true
end

local function another_life() return redis.error_reply('LIFE this server has begun another life') end

-- A lease or a place in a queue; nil: there is none.
local function read(lease)
    local flat = call('HGETALL', key('lease', lease))
    if #flat == 0 then return nil end
    local row = { lease = lease, claims = {} }
    for i = 1, #flat, 2 do
        local field, value = flat[i], flat[i + 1]
        if field:sub(1, 1) == '/' then
            local capacity, fence = value:match('^(%d+) ?(%d*)$')
            row.claims[#row.claims + 1] = { name = field:sub(2), capacity = tonumber(capacity), fence = fence }
        else
            row[field] = value
        end
    end
    row.ends = tonumber(row.ends)
    return row
end

-- Whether a lease, or a place in a queue, is none any more. Its row alone does not tell: it outlives the end, and the
-- clock may have been set back since others found it ended and took the names.
local function has_ended(row)
    if row.ends <= now then return true end
    local set = row.state == 'held' and 'held' or 'waiting'
    for _, claim in ipairs(row.claims) do
        if not call('ZSCORE', key(set, claim.name), row.lease) then return true end
    end
    return false
end

local function ended_since(row) return int(math.min(row.ends, now)) end

local function same_claims(row, claims)
    if #row.claims ~= #claims then return false end
    local wanted = {}
    for _, claim in ipairs(claims) do wanted[claim.name] = claim.capacity end
    for _, claim in ipairs(row.claims) do
        if wanted[claim.name] ~= claim.capacity then return false end
    end
    return true
end

-- Takes the members of `set` whose score has been reached from it and from `other`; whether there were any.
local function take_reached(set, other)
    local any = false
    while true do
        local reached = call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, CHUNK)
        if #reached == 0 then return any end
        any = true
        call('ZREM', set, unpack(reached))
        call('ZREM', other, unpack(reached))
    end
end

-- Takes away what has expired or lapsed on a name; whether there was anything.
local function drop_dead(name)
    local expired = take_reached(key('held', name), key('capacity', name))
    local lapsed = take_reached(key('lapses', name), key('waiting', name))
    return expired or lapsed
end

-- These three look at names whose dead have been dropped.

local function first_waiter(name)
    local first = call('ZRANGE', key('waiting', name), 0, 0, 'WITHSCORES')
    if #first == 0 then return nil end
    return { lease = first[1], ticket = tonumber(first[2]) }
end

local function has_room(name, capacity)
    local holders = call('ZCARD', key('held', name))
    if holders == 0 then return true end
    local strictest = tonumber(call('ZRANGE', key('capacity', name), 0, 0, 'WITHSCORES')[2])
    return holders < math.min(strictest, capacity)
end

local woken = {}

local function wake_one(lease, node)
    if woken[lease] then return end
    woken[lease] = true
    call('PUBLISH', PREFIX .. 'wake:' .. node, lease)
end

-- Wakes the first waiter of a name if there is room for it.
local function wake(name)
    local first = first_waiter(name)
    if not first then return end
    local row = call('HMGET', key('lease', first.lease), '/' .. name, 'node')
    if row[1] and has_room(name, tonumber(row[1])) then wake_one(first.lease, row[2]) end
end

local function clear(name)
    if drop_dead(name) then wake(name) end
end

-- Puts a name into the lists, at least until then.
local function use(name, ends)
    call('ZADD', PREFIX .. 'names', 0, name)
    call('ZADD', PREFIX .. 'until', 'GT', ends, name)
    call('PEXPIRE', PREFIX .. 'names', kept)
    call('PEXPIRE', PREFIX .. 'until', kept)
end

-- Takes a name out of the lists if nobody uses it.
local function settle(name)
    if call('EXISTS', key('held', name), key('waiting', name)) == 0 then
        call('ZREM', PREFIX .. 'names', name)
        call('ZREM', PREFIX .. 'until', name)
    end
end

local function put_holder(lease, name, capacity, ends)
    call('ZADD', key('held', name), ends, lease)
    call('ZADD', key('capacity', name), capacity, lease)
    call('PEXPIRE', key('held', name), kept)
    call('PEXPIRE', key('capacity', name), kept)
    use(name, ends)
end

local function put_ends(lease, ends)
    call('HSET', key('lease', lease), 'ends', int(ends))
    call('PEXPIRE', key('lease', lease), int(ends - now + LOST_KEPT))
end

-- Takes a lease, or a place in a queue, away from all of its names.
local function remove(row)
    local sets = row.state == 'held' and { 'held', 'capacity' } or { 'waiting', 'lapses' }
    for _, claim in ipairs(row.claims) do
        call('ZREM', key(sets[1], claim.name), row.lease)
        call('ZREM', key(sets[2], claim.name), row.lease)
    end
    call('DEL', key('lease', row.lease))
end

-- The same, and wakes those who waited for it.
local function give_up(row)
    remove(row)
    for _, claim in ipairs(row.claims) do
        drop_dead(claim.name)
        wake(claim.name)
        settle(claim.name)
    end
end

-- Milliseconds that a time to live in microseconds comes to. One more is added to every lease: this one has begun.
local function ends_after(ttl) return now + math.ceil(tonumber(ttl) / 1000) + 1 end
