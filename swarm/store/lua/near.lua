-- Agents whose files lie on the host that they ran on last: their message goes to a worker there, and after a moment to everybody.
--
-- P:near  zset  such agents by when they are anybody's

-- A worker that is there on the same host: the one that had the agent, or else any. Workers are called `HOST:…`.
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

-- For each of these called agents the worker that its message goes to for `seconds`; '' where it is anybody's at once: it is new, its worker
-- died, or nobody of that host is there any more.
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
end, { list_after = 1 })

-- Take up to `most` of those that nobody there has taken in time, for a worker that can run them now. Returns their ids.
step('take_late', function(most)
  local taken = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':near', '-inf', NOW, 'LIMIT', 0, most)) do
    redis.call('ZREM', P .. ':near', id)
    if field(id, 'state') == 'queued' then taken[#taken + 1] = id end
  end
  return taken
end)
