-- ARGV: token, lease. Never makes a lease.
if not enter(ARGV[1]) then return another_life() end
local row = read(ARGV[2])
if not row or row.state ~= 'held' then return { 'lost' } end
if has_ended(row) then
    give_up(row)
    return { 'lost', ended_since(row) }
end
local ends = ends_after(row.ttl)
for _, claim in ipairs(row.claims) do put_holder(row.lease, claim.name, claim.capacity, ends) end
put_ends(row.lease, ends)
return { 'renewed', row.ttl }
