-- ARGV: token, after which name (empty: from the first), most names, most holders, most names that are looked at, and
-- so many of them at a time.
-- Answers: now, where the next page begins (empty: nowhere), then for each name: name, waiters, holders.
if not enter(ARGV[1]) then return another_life() end
local last, names_max, holders_max, looks_max = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local chunk = ARGV[6]

local function holders_of(name)
    local told = {}
    for _, lease in ipairs(call('ZRANGEBYSCORE', key('held', name), '(' .. int(now), '+inf')) do
        local row = call('HMGET', key('lease', lease), 'owner', 'host', '/' .. name, 'since', 'ends', 'ttl', 'names')
        if row[3] then
            local capacity, fence = row[3]:match('^(%d+) (%d+)$')
            told[#told + 1] = { lease, row[1], row[2], capacity, fence, row[4], row[5], row[6], row[7] }
        end
    end
    return told
end

local answer, names, holders, looks = { int(now), '' }, 0, 0, 0
while true do
    local from = last == '' and '-' or '(' .. last
    local found = call('ZRANGEBYLEX', PREFIX .. 'names', from, '+', 'LIMIT', 0, chunk)
    if #found == 0 then return answer end
    for _, name in ipairs(found) do
        local waiters = call('ZCOUNT', key('lapses', name), '(' .. int(now), '+inf')
        local told = holders_of(name)
        local seen = #told > 0 or waiters > 0
        local full = names == names_max or (names > 0 and holders + #told > holders_max)
        if (seen and full) or looks == looks_max then
            answer[2] = last
            return answer
        end
        if seen then
            names, holders = names + 1, holders + #told
            answer[#answer + 1] = { name, int(waiters), told }
        end
        last, looks = name, looks + 1
    end
end
