-- Prolong the leases of the agents a worker runs. Returns those it no longer owns, or whose record is gone: they must be stopped.
step('renew', function(worker, lease_seconds, ids)
  local lost = {}
  for _, id in ipairs(ids) do
    local state, owner = fields(id, 'state', 'worker')
    if state == 'running' and owner == worker and not is_doomed(id) then
      redis.call('ZADD', P .. ':leases', 'XX', NOW + tonumber(lease_seconds), id)
    elseif state ~= 'queued' then
      lost[#lost + 1] = id
    end
  end
  return lost
end, { list_after = 2 })
