-- Leases in Redis, by the law of lockkeeper_store::lease::law. This part stands before each of the scripts; every one
-- of them is one turn of the law, and runs alone.
--
-- KEYS[1] is the hash `life`; all other keys have its prefix, and with it its hash tag, so that they are in one slot:
--   life             token: drawn for each life of the server · since: what was given before may have been forgotten, so
--                    that nobody gets a lease for max_ttl from then · max_ttl, place_max: the longest of all nodes ·
--                    fence: the last one given · ticket: the last one drawn
--   lease:LEASE      hash: state (held, waits), owner, host, since, ends, ttl, names, ticket, node,
--                    and for each name a field `/NAME`: its capacity, and once it is held the fence
--   wake:NODE        channel: who of a node is to ask again (LEASE), or has been granted what it waited for (LEASE TICKET
--                    FENCES, sorted by name)
--   held:NAME        sorted set: lease -> when it ends          capacity:NAME   lease -> how many may hold
--   waiting:NAME     sorted set: lease -> ticket                lapses:NAME     lease -> when its place ends
--   names            all names in use, for lists                until           name -> when nothing of it can be left
--   ended:LEASE      an attempt that was ended
-- Times are milliseconds by this server's clock. Numbers are doubles: exact below 2^53, and written with %.0f.
-- Every key but `life` has an expiry; `life` is one small hash.

local call = redis.call
local PREFIX = KEYS[1]:sub(1, -5)
local FENCE_MAX = 9007199254740991
-- Those who are granted within one turn what they wait for, and how long that lasts at least (milliseconds) where their
-- places are kept for as long.
local GRANTS_AHEAD_MAX = 32
local AHEAD_MIN = 1000
-- How long the end of a lease is remembered, for its holder to hear of.
local LOST_KEPT = 60000
-- Arguments of one command: Lua's stack has room for some thousands.
local CHUNK = 1000

local clock = call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function int(number) return string.format('%.0f', number) end

local function key(kind, name) return PREFIX .. kind .. ':' .. name end

-- Set by `enter`.
local max_ttl, kept, since, last_fence

-- False: the caller has met another life of the server, or this one has forgotten it.
local function enter(token)
    local life = call('HMGET', KEYS[1], 'token', 'max_ttl', 'place_max', 'since', 'fence')
    if life[1] ~= token then return false end
    max_ttl, since, last_fence = tonumber(life[2]), tonumber(life[4]), tonumber(life[5])
    kept = int(math.max(max_ttl, tonumber(life[3])) + LOST_KEPT)
    return true
end

local function another_life() return redis.error_reply('LIFE this server has begun another life') end

-- As `<` is by the server's locale.
local function by_bytes(one, other)
    for i = 1, math.min(#one.name, #other.name) do
        local a, b = one.name:byte(i), other.name:byte(i)
        if a ~= b then return a < b end
    end
    return #one.name < #other.name
end

-- A lease or a place in a queue, its names sorted; nil: there is none.
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
    if #row.claims > 1 then table.sort(row.claims, by_bytes) end
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
    if holders == 0 then return capacity > 0 end
    local strictest = tonumber(call('ZRANGE', key('capacity', name), 0, 0, 'WITHSCORES')[2])
    return holders < math.min(strictest, capacity)
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

local function keep_row(lease, ends) call('PEXPIRE', key('lease', lease), int(ends - now + LOST_KEPT)) end

local function put_ends(lease, ends)
    call('HSET', key('lease', lease), 'ends', int(ends))
    keep_row(lease, ends)
end

-- Who is in the way, told by its lease's row.
local function in_the_way(name, other, holds)
    local told = call('HMGET', key('lease', other), 'owner', 'host', 'since')
    return { name, told[1] or '?', told[2] or '?', told[3] or int(now), holds }
end

-- What is in the way of one who waits with this ticket (nil: of a newcomer), and until when: told is the first of the
-- names that is not to be had, and who of its holders goes first; the time is that of the name that is held for longest.
local function obstacle(claims, ticket)
    local found, until_
    for _, claim in ipairs(claims) do
        local first = first_waiter(claim.name)
        if first and (not ticket or first.ticket < ticket) then
            return in_the_way(claim.name, first.lease, '0'), nil
        end
        if not has_room(claim.name, claim.capacity) then
            -- The first of them to expire: only then can there be room, unless somebody releases.
            local holder = call('ZRANGE', key('held', claim.name), 0, 0, 'WITHSCORES')
            local ends = tonumber(holder[2])
            found = found or in_the_way(claim.name, holder[1], '1')
            until_ = math.max(until_ or 0, ends)
        end
    end
    return found, until_
end

-- Above every fence before, whatever its name: so none has to be kept for each name.
local function next_fence()
    last_fence = math.min(last_fence + 1, FENCE_MAX)
    local fence = int(last_fence)
    call('HSET', KEYS[1], 'fence', fence)
    return fence
end

local function fence_of(name)
    local holder = call('ZRANGE', key('held', name), 0, 0)[1]
    -- Whoever joins is of the holders' generation.
    local held = holder and call('HGET', key('lease', holder), '/' .. name)
    return held and held:match(' (%d+)$') or next_fence()
end

-- Gives a lease its names, which have room for it; its fences.
local function hold(lease, owner, host, ttl, claims, ends)
    local fences = {}
    local fields = {
        'state', 'held', 'owner', owner, 'host', host, 'since', int(now), 'ends', int(ends), 'ttl', int(ttl), 'names', #claims,
    }
    for _, claim in ipairs(claims) do
        local fence = fence_of(claim.name)
        put_holder(lease, claim.name, claim.capacity, ends)
        fields[#fields + 1] = '/' .. claim.name
        fields[#fields + 1] = int(claim.capacity) .. ' ' .. fence
        fences[#fences + 1] = fence
    end
    call('HSET', key('lease', lease), unpack(fields))
    keep_row(lease, ends)
    return fences
end

-- Milliseconds that a time to live in microseconds comes to. One more is added to every lease: this one has begun.
local function ends_after(ttl) return now + math.ceil(tonumber(ttl) / 1000) + 1 end

-- Takes a lease, or a place in a queue, away from all of its names: from which of them that was not done before.
local function remove(row)
    local sets = row.state == 'held' and { 'held', 'capacity' } or { 'waiting', 'lapses' }
    local names = {}
    for _, claim in ipairs(row.claims) do
        if call('ZREM', key(sets[1], claim.name), row.lease) == 1 then names[#names + 1] = claim.name end
        call('ZREM', key(sets[2], claim.name), row.lease)
    end
    call('DEL', key('lease', row.lease))
    return names
end

-- With how many at most a lease shares a name; 0: it is not among its names.
local function capacity_on(row, name)
    for _, claim in ipairs(row.claims) do
        if claim.name == name then return claim.capacity end
    end
    return 0
end

-- Whom this turn has told, and how many it has granted what they waited for.
local woken, granted_ahead = {}, 0

-- Whose turn it is, if somebody asks: that one hears by the answer.
local asker

local function wake_one(lease, node)
    if lease == asker then return end
    woken[lease] = true
    call('PUBLISH', PREFIX .. 'wake:' .. node, lease)
end

local wake

-- Wakes those for whom there is room now beside one that has been granted these names.
local function wake_beside(claims)
    for _, claim in ipairs(claims) do
        if claim.capacity > 1 then wake(claim.name) end
    end
end

-- Grants the first waiter of a name that has room for it what it waits for, if the others of its names are to be had, for
-- no longer than its place would have been kept. If they are not, it asks again, to learn when they may be.
local function grant_ahead(name, row)
    local dropped, others = {}, {}
    for _, claim in ipairs(row.claims) do
        if claim.name ~= name then
            others[#others + 1] = claim
            if drop_dead(claim.name) then dropped[#dropped + 1] = claim.name end
        end
    end
    if obstacle(others, tonumber(row.ticket)) then
        wake_one(row.lease, row.node)
        for _, other in ipairs(dropped) do wake(other) end
        return
    end
    granted_ahead = granted_ahead + 1
    woken[row.lease] = true
    remove(row)
    local ends = math.min(math.max(ends_after(row.ttl), now + AHEAD_MIN + 1), row.ends + 1)
    local fences = hold(row.lease, row.owner, row.host, row.ttl, row.claims, ends)
    local told = row.lease .. ' ' .. row.ticket .. ' ' .. table.concat(fences, ' ')
    if row.lease ~= asker then call('PUBLISH', PREFIX .. 'wake:' .. row.node, told) end
    wake_beside(row.claims)
end

-- Tells the first waiter of a name if there is room for it.
function wake(name)
    local first = first_waiter(name)
    -- Who is to ask again will be granted what has become free since.
    if not first or woken[first.lease] then return end
    local row = read(first.lease)
    if not (row and has_room(name, capacity_on(row, name))) then return end
    -- Not while leases may be held that this server has forgotten; nor to who came by a node that did not say for how long.
    if row.ttl and granted_ahead < GRANTS_AHEAD_MAX and since + max_ttl <= now then
        grant_ahead(name, row)
    else
        wake_one(row.lease, row.node)
    end
end

-- Tells those who wait for names that somebody was taken away from.
local function wake_all(names)
    for _, name in ipairs(names) do
        drop_dead(name)
        wake(name)
        settle(name)
    end
end

local function give_up(row) wake_all(remove(row)) end
