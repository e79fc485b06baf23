-- Agents whose files are on their last host: their message goes first to a worker there, and after a moment to any worker.
--
-- P:near  zset  such agents by when any worker may take them

-- A live worker on the same host: the agent's last one, or else any. Workers are named `HOST:…`.
local function find_near(worker, slots)
  if not slots[worker] then
    local host = string.match(worker, '^[^:]*:')
    worker = nil
    for one in pairs(slots) do
      if host and string.sub(one, 1, #host) == host and (not worker or one < worker) then worker = one end
    end
  end
  return worker
end

-- For each called agent, the worker that gets its message for `seconds`; '' if any worker may take it at once: the agent is new, its worker
-- died, or its host has no live worker.
step('send_near', function(seconds, ids)
  local found, slots = {}, {}
  for _, worker in ipairs(redis.call('HKEYS', P .. ':slots')) do slots[worker] = true end
  for i, id in ipairs(ids) do
    local worker, death_at = fields(id, 'worker', 'death_at')
    local fell = death_at and death_at == tostring(agents.journal_length(id))
    local near = worker and not fell and find_near(worker, slots)
    if near then redis.call('ZADD', P .. ':near', NOW + tonumber(seconds), id) end
    found[i] = near or ''
  end
  return found
end, { when_full = true, list_after = 1 })

-- Take up to `most` agents that their host's workers left too long, for a worker that can run them now. Returns their ids.
step('take_late', function(most)
  local taken = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':near', '-inf', NOW, 'LIMIT', 0, most)) do
    redis.call('ZREM', P .. ':near', id)
    if field(id, 'state') == 'queued' then taken[#taken + 1] = id end
  end
  return taken
end, { when_full = true })
