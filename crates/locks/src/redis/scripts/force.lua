-- ARGV: token, name. Who holds it holds nothing any more.
if not enter(ARGV[1]) then return another_life() end
local name = ARGV[2]
local dropped = drop_dead(name)
local leases = call('ZRANGE', key('held', name), 0, -1)
table.sort(leases)
local answer, names = { 'forced' }, {}
for _, lease in ipairs(leases) do
    local row = read(lease)
    for _, claim in ipairs(row and row.claims or {}) do
        if claim.name == name then
            answer[#answer + 1] = {
                lease, row.owner, row.host, int(claim.capacity), claim.fence, row.since, int(row.ends), row.ttl, row.names,
            }
        end
    end
    if row then
        for _, freed in ipairs(remove(row)) do names[#names + 1] = freed end
    end
    -- Also of one whose row is gone: it outlives the end by a minute, and the clock may have been set back by more.
    if call('ZREM', key('held', name), lease) == 1 then names[#names + 1] = name end
    call('ZREM', key('capacity', name), lease)
end
-- All of them before anybody is granted what they held.
wake_all(names)
if dropped then wake(name) end
return answer
