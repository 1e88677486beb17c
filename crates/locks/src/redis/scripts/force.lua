-- ARGV: token, name. Who holds it holds nothing any more.
if not enter(ARGV[1]) then return another_life() end
local name = ARGV[2]
clear(name)
local answer = { 'forced' }
for _, lease in ipairs(call('ZRANGE', key('held', name), 0, -1)) do
    local row = read(lease)
    for _, claim in ipairs(row and row.claims or {}) do
        if claim.name == name then
            answer[#answer + 1] = {
                lease, row.owner, row.host, int(claim.capacity), claim.fence, row.since, int(row.ends), row.ttl, row.names,
            }
        end
    end
    if row then give_up(row) end
    -- Also of one whose row is gone: it outlives the end by a minute, and the clock may have been set back by more.
    call('ZREM', key('held', name), lease)
    call('ZREM', key('capacity', name), lease)
end
return answer
