-- Make a map that gathers its lines; it expires after a day unless it is started by then.
--   record     JSON {fields...}
--   carried    JSON [[hash, text or ''], ...]: all documents of its jobs
-- Returns 'ok' | 'document': call again with the texts
step('make_map', function(map, record, carried)
  local hashes = {}
  for i, document in ipairs(cjson.decode(carried)) do
    if not documents.refer(map, document[1], document[2]) then return 'document' end
    hashes[i] = document[1]
  end
  if redis.call('EXISTS', maps.key(map)) == 1 then return 'ok' end
  for name, value in pairs(cjson.decode(record)) do redis.call('HSET', maps.key(map), name, value) end
  redis.call('HSET', maps.key(map), 'state', 'gathering', 'created', NOW, 'ended', '', 'documents', cjson.encode(hashes))
  redis.call('ZADD', P .. ':maps', NOW, map)
  maps.keep(map, 86400)
  return 'ok'
end)

-- Add lines to a map that gathers them.
--   lines  number, JSON, number, JSON…
step('add_lines', function(map, lines)
  if redis.call('HGET', maps.key(map), 'state') ~= 'gathering' then return 'started' end
  redis.call('HSET', maps.key(map, 'lines'), unpack(lines))
  maps.keep(map, 86400)
  return 'ok'
end, { list_after = 1 })

-- Start a map once it has all lines: one short step, whatever their number. Returns {'ok', publish, begun} | {'unknown'}
step('start_map', function(map)
  local state = redis.call('HGET', maps.key(map), 'state')
  if not state then return { 'unknown' } end
  if state ~= 'gathering' then return { 'ok', publish, maps.begin_lines(map) } end
  redis.call('HSET', maps.key(map), 'total', redis.call('HLEN', maps.key(map, 'lines')), 'fresh', 1)
  maps.reopen(map)
  return { 'ok', publish, maps.begin_lines(map) }
end)

-- Begin more lines, with new bounds ('': unchanged). Continues a map that stopped because its budget was spent.
-- Returns {'ok', publish, begun} | {'unknown'} | {'gathering'}
step('go_on_map', function(map, max_running, budget)
  local state, cost = read(maps.key(map), 'state', 'cost')
  if not state then return { 'unknown' } end
  if state == 'gathering' then return { state } end
  if max_running ~= '' then redis.call('HSET', maps.key(map), 'max_running', max_running) end
  if budget ~= '' then
    redis.call('HSET', maps.key(map), 'budget', budget)
    if state == 'stopped' and tonumber(budget) > count(cost) then maps.reopen(map) end
  end
  return { 'ok', publish, maps.begin_lines(map) }
end)

-- Retry failed lines.
--   lines  number, JSON of the next attempt, …; lines that have not failed are skipped
-- Returns {'ok', publish, begun} | {'unknown'} | {'cancelled'}
step('retry_lines', function(map, lines)
  local state = redis.call('HGET', maps.key(map), 'state')
  if not state or state == 'cancelled' then return { state or 'unknown' } end
  for i = 1, #lines, 2 do
    local number = lines[i]
    if redis.call('ZREM', maps.key(map, 'failed'), number) == 1 then
      local line = cjson.decode(redis.call('HGET', maps.key(map, 'lines'), number))
      local tried = tonumber(redis.call('HGET', maps.key(map, 'tried'), number))
      -- A cancelled line keeps its attempts.
      while #line.attempts > tried do table.remove(line.attempts) end
      line.attempts[#line.attempts + 1] = cjson.decode(lines[i + 1])
      redis.call('HSET', maps.key(map, 'lines'), number, cjson.encode(line))
      redis.call('RPUSH', maps.key(map, 'waiting'), number)
      add(maps.key(map), 'failed', -1)
      if redis.call('HGET', maps.key(map), 'ended') ~= '' then maps.reopen(map) end
    end
  end
  return { 'ok', publish, maps.begin_lines(map) }
end, { list_after = 1 })

-- Begin no further lines. Returns the roots of the jobs that run: the caller cancels them.
step('cancel_map', function(map)
  local state, ended, total = read(maps.key(map), 'state', 'ended', 'total')
  if not state then return { 'unknown' } end
  if ended == '' then
    redis.call('HSET', maps.key(map), 'state', 'cancelled', 'fresh', 1 + count(total))
    redis.call('DEL', maps.key(map, 'waiting'))
    maps.begin_lines(map)
  end
  local roots = {}
  for _, job in ipairs(redis.call('ZRANGE', maps.key(map, 'running'), 0, -1)) do roots[#roots + 1] = job_field(job, 'root') end
  return { 'ok', roots }
end, { when_full = true })
