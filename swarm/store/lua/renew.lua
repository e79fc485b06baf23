-- Renew the leases of a worker's agents. Returns agents that it no longer owns or whose record is gone; the worker must stop them.
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
end, { when_full = true, list_after = 2 })
