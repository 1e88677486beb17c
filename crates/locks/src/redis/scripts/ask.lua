-- ARGV: token, lease, owner, host, ttl (microseconds), keep (milliseconds; -1: takes no place in the queue), node,
-- most waiters of a name; then for each claim, sorted by name: name, capacity.
if not enter(ARGV[1]) then return another_life() end
local lease, owner, host, node = ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local ttl, keep, waiters_max = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[8])
if not (ttl >= 1000 and ttl <= max_ttl * 1000) then
    return redis.error_reply('TTL a lease lives from 1 to ' .. int(max_ttl) .. ' ms here')
end
local claims = {}
for i = 9, #ARGV, 2 do claims[#claims + 1] = { name = ARGV[i], capacity = tonumber(ARGV[i + 1]) } end

-- Names that were left to expire, a few each time: more than are left behind.
for _, name in ipairs(call('ZRANGEBYSCORE', PREFIX .. 'until', '-inf', now, 'LIMIT', 0, 1 + #claims)) do
    drop_dead(name)
    settle(name)
end

if call('EXISTS', key('ended', lease)) == 1 then return { 'over' } end

local row = read(lease)

-- A lease that is held already: the answer to its ask was lost. It lives on from now.
local function grant_again()
    if not same_claims(row, claims) then return { 'mismatch' } end
    local ends, fences = ends_after(ttl), {}
    for _, claim in ipairs(row.claims) do
        fences[claim.name] = claim.fence
        put_holder(lease, claim.name, claim.capacity, ends)
    end
    call('HSET', key('lease', lease), 'ttl', int(ttl))
    put_ends(lease, ends)
    local answer = { 'granted' }
    for _, claim in ipairs(claims) do answer[#answer + 1] = fences[claim.name] end
    return answer
end

if row and has_ended(row) then
    give_up(row)
    row = nil
end
if row and row.state == 'held' then return grant_again() end

for _, claim in ipairs(claims) do clear(claim.name) end

if row and not same_claims(row, claims) then return { 'mismatch' } end
local ticket = row and tonumber(row.ticket)

-- A clock that was set back must not keep it closed.
if since > now then
    since = now
    call('HSET', KEYS[1], 'since', int(since))
end
if since + max_ttl > now then return { 'closed', int(since + max_ttl - now) } end

-- Who is in the way, told by its lease's row.
local function in_the_way(name, other, holds)
    local told = call('HMGET', key('lease', other), 'owner', 'host', 'since')
    return { name, told[1] or '?', told[2] or '?', told[3] or int(now), holds }
end

-- What is in the way, and until when: told is the first of the names that is not to be had, and who of its holders goes
-- first; the time is that of the name that is held for longest.
local function obstacle()
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
    local last = tonumber(call('HGET', KEYS[1], 'fence'))
    local fence = int(math.min(last + 1, FENCE_MAX))
    call('HSET', KEYS[1], 'fence', fence)
    return fence
end

local function fence_of(name)
    local holder = call('ZRANGE', key('held', name), 0, 0)[1]
    -- Whoever joins is of the holders' generation.
    local held = holder and call('HGET', key('lease', holder), '/' .. name)
    return held and held:match(' (%d+)$') or next_fence()
end

local function grant()
    if row then remove(row) end
    local ends, answer = ends_after(ttl), { 'granted' }
    local fields = { 'state', 'held', 'owner', owner, 'host', host, 'since', int(now), 'ttl', int(ttl), 'names', #claims }
    for _, claim in ipairs(claims) do
        local fence = fence_of(claim.name)
        put_holder(lease, claim.name, claim.capacity, ends)
        fields[#fields + 1] = '/' .. claim.name
        fields[#fields + 1] = int(claim.capacity) .. ' ' .. fence
        answer[#answer + 1] = fence
    end
    call('HSET', key('lease', lease), unpack(fields))
    put_ends(lease, ends)
    for _, claim in ipairs(claims) do wake(claim.name) end
    return answer
end

local function queue(held_by, until_)
    if keep < 0 then
        if row then give_up(row) end
        return { 'held', held_by }
    end
    if not row then
        for _, claim in ipairs(claims) do
            local waiters = call('ZCARD', key('waiting', claim.name))
            if waiters >= waiters_max then return { 'full', claim.name, int(waiters) } end
        end
        ticket = call('HINCRBY', KEYS[1], 'ticket', 1)
    end
    local lapses = now + keep
    local fields = { 'state', 'waits', 'owner', owner, 'host', host, 'node', node, 'ticket', int(ticket) }
    fields[#fields + 1] = 'since'
    fields[#fields + 1] = row and row.since or int(now)
    for _, claim in ipairs(claims) do
        call('ZADD', key('waiting', claim.name), ticket, lease)
        call('ZADD', key('lapses', claim.name), lapses, lease)
        call('PEXPIRE', key('waiting', claim.name), kept)
        call('PEXPIRE', key('lapses', claim.name), kept)
        use(claim.name, lapses)
        fields[#fields + 1] = '/' .. claim.name
        fields[#fields + 1] = int(claim.capacity)
    end
    call('HSET', key('lease', lease), unpack(fields))
    put_ends(lease, lapses)
    return { 'waiting', held_by, until_ and int(until_ - now) or '-1' }
end

local held_by, until_ = obstacle()
if held_by then return queue(held_by, until_) end
return grant()
