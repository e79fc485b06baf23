-- Make a map that gathers its lines; it is forgotten after a day unless it is started by then.
--   record     JSON {fields...}
--   documents  JSON [[hash, text or ''], ...]: all that travels with its jobs
-- Returns 'ok' | 'document': say it again with the texts
step('make_map', function(map, record, documents)
  local hashes = {}
  for i, document in ipairs(cjson.decode(documents)) do
    if not refer_to(map, document[1], document[2]) then return 'document' end
    hashes[i] = document[1]
  end
  if redis.call('EXISTS', map_key(map)) == 1 then return 'ok' end
  for name, value in pairs(cjson.decode(record)) do redis.call('HSET', map_key(map), name, value) end
  redis.call('HSET', map_key(map), 'state', 'gathering', 'created', NOW, 'ended', '', 'documents', cjson.encode(hashes))
  redis.call('ZADD', P .. ':maps', NOW, map)
  keep_map(map, 86400)
  return 'ok'
end)

-- Add lines to a map that gathers them.
--   lines  number, JSON, number, JSON…
step('add_lines', function(map, lines)
  if redis.call('HGET', map_key(map), 'state') ~= 'gathering' then return 'started' end
  redis.call('HSET', map_key(map, 'lines'), unpack(lines))
  keep_map(map, 86400)
  return 'ok'
end, { list_after = 1 })

-- All lines are there: begin. Returns {'ok', publish, begun} | {'unknown'}
step('start_map', function(map)
  local state = redis.call('HGET', map_key(map), 'state')
  if not state then return { 'unknown' } end
  if state ~= 'gathering' then return { 'ok', publish, begin_lines(map) } end
  local total = redis.call('HLEN', map_key(map, 'lines'))
  for number = 1, total do redis.call('RPUSH', map_key(map, 'waiting'), number) end
  redis.call('HSET', map_key(map), 'total', total)
  reopen_map(map)
  return { 'ok', publish, begin_lines(map) }
end)

-- Begin more lines, with other bounds from now on ('': as it is). One that stopped because its money was spent goes on.
-- Returns {'ok', publish, begun} | {'unknown'} | {'gathering'}
step('go_on_map', function(map, max_running, budget)
  local state, cost = read(map_key(map), 'state', 'cost')
  if not state then return { 'unknown' } end
  if state == 'gathering' then return { state } end
  if max_running ~= '' then redis.call('HSET', map_key(map), 'max_running', max_running) end
  if budget ~= '' then
    redis.call('HSET', map_key(map), 'budget', budget)
    if state == 'stopped' and tonumber(budget) > count(cost) then reopen_map(map) end
  end
  return { 'ok', publish, begin_lines(map) }
end)

-- Try lines again that failed.
--   lines  number, JSON of what is its next attempt, …: what is no failed line is passed over
-- Returns {'ok', publish, begun} | {'unknown'} | {'cancelled'}
step('retry_lines', function(map, lines)
  local state = redis.call('HGET', map_key(map), 'state')
  if not state or state == 'cancelled' then return { state or 'unknown' } end
  for i = 1, #lines, 2 do
    local number = lines[i]
    if redis.call('ZREM', map_key(map, 'failed'), number) == 1 then
      local line = cjson.decode(redis.call('HGET', map_key(map, 'lines'), number))
      local tried = tonumber(redis.call('HGET', map_key(map, 'tried'), number))
      -- One that was cancelled has kept attempts.
      while #line.attempts > tried do table.remove(line.attempts) end
      line.attempts[#line.attempts + 1] = cjson.decode(lines[i + 1])
      redis.call('HSET', map_key(map, 'lines'), number, cjson.encode(line))
      redis.call('RPUSH', map_key(map, 'waiting'), number)
      add(map_key(map), 'failed', -1)
      if redis.call('HGET', map_key(map), 'ended') ~= '' then reopen_map(map) end
    end
  end
  return { 'ok', publish, begin_lines(map) }
end, { list_after = 1 })

-- Begin no further lines. Returns the roots of the jobs that run: the caller cancels them.
step('cancel_map', function(map)
  local state, ended = read(map_key(map), 'state', 'ended')
  if not state then return { 'unknown' } end
  if ended == '' then
    redis.call('HSET', map_key(map), 'state', 'cancelled')
    redis.call('DEL', map_key(map, 'waiting'))
    begin_lines(map)
  end
  local roots = {}
  for _, job in ipairs(redis.call('ZRANGE', map_key(map, 'running'), 0, -1)) do roots[#roots + 1] = job_field(job, 'root') end
  return { 'ok', roots }
end)
