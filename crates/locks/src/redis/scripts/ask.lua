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

local function forget_if_ended()
    if row and has_ended(row) then
        give_up(row)
        row = nil
    end
end

if row and row.state == 'held' then forget_if_ended() end
if row and row.state == 'held' then return grant_again() end
local dropped = {}
for _, claim in ipairs(claims) do
    if drop_dead(claim.name) then dropped[#dropped + 1] = claim.name end
end
forget_if_ended()

local function queue(held_by, until_)
    if keep < 0 then
        if row then give_up(row) end
        return { 'held', held_by }
    end
    local ticket = row and row.ticket
    if not row then
        for _, claim in ipairs(claims) do
            local waiters = call('ZCARD', key('waiting', claim.name))
            if waiters >= waiters_max then return { 'full', claim.name, int(waiters) } end
        end
        ticket = int(call('HINCRBY', KEYS[1], 'ticket', 1))
    end
    -- What an earlier ask of the same name was told holds, too.
    local lapses = math.max(now + keep, row and row.ends or 0)
    local lives = math.max(ttl, tonumber(row and row.ttl or 0))
    local waits_since = row and row.since or int(now)
    local fields = {
        'state', 'waits', 'owner', owner, 'host', host, 'node', node, 'ticket', ticket, 'ttl', int(lives), 'ends', int(lapses),
        'since', waits_since,
    }
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
    keep_row(lease, lapses)
    return { 'waiting', held_by, until_ and int(until_ - now) or '-1', ticket }
end

-- Of names whose dead have been dropped.
local function decide()
    if row and not same_claims(row, claims) then return { 'mismatch' } end
    -- A clock that was set back must not keep it closed.
    if since > now then
        since = now
        call('HSET', KEYS[1], 'since', int(since))
    end
    if since + max_ttl > now then return { 'closed', int(since + max_ttl - now) } end
    local held_by, until_ = obstacle(claims, row and tonumber(row.ticket))
    if held_by then return queue(held_by, until_) end
    if row then remove(row) end
    local fences = hold(lease, owner, host, ttl, claims, ends_after(ttl))
    wake_beside(claims)
    return { 'granted', unpack(fences) }
end

asker = lease
local answer = decide()
-- Not before: the asker itself may be the first there.
for _, name in ipairs(dropped) do wake(name) end
if granted_ahead == 0 then return answer end
row = read(lease)
-- By one that was granted in between and shares a name with it.
if row and row.state == 'held' and answer[1] == 'waiting' then return grant_again() end
return answer
