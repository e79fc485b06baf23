-- Maps: the same order for each line of a list, a job per line, so many at once. The step that ends a line's job stores its result and
-- begins the next line, so a map continues without a watcher.
--
-- P:maps            zset    all maps by creation time
-- P:maps:waiting    set     maps whose next lines wait for room in Redis
-- P:map:ID          hash    state: gathering -> running -> completed | stopped (budget spent) | cancelled; created, ended, total,
--                           fresh (the next line that was never begun), max_running, budget; the common parts of all its jobs: `job`, `agent`, `spec` (JSON objects),
--                           seconds, definitions, carried, documents (hashes); its counts: completed, failed, cost …
-- P:map:ID:lines    hash    number -> JSON {input, label, own, attempts}: the line, and its own part of the spec (a JSON object); of each
--                           attempt {job, root, its own part}
-- P:map:ID:waiting  list    the numbers of the lines to be tried again, after the fresh ones
-- P:map:ID:running  zset    the jobs that run for it, by the number of their line
-- P:map:ID:tried    hash    number -> how many attempts were begun
-- P:map:ID:failed   zset    the numbers of the lines that failed for good
-- P:map:ID:results  stream  the result of each line, and an entry at the map's end; a retry continues the stream
-- Of a job: `map`, `map_line`.

-- Most lines that one step begins: each end begins as many again, so a map soon reaches its size.
local LINES_AT_ONCE = 20
local MAPS_AT_ONCE = 5
local MAP_PARTS = { 'lines', 'waiting', 'running', 'tried', 'failed', 'results' }

function maps.key(map, part) return P .. ':map:' .. map .. (part and ':' .. part or '') end

-- Have the keys of a map expire in so many seconds; '': never.
function maps.keep(map, seconds)
  local function apply(key)
    if seconds == '' then redis.call('PERSIST', key) else redis.call('EXPIRE', key, math.ceil(tonumber(seconds))) end
  end
  apply(maps.key(map))
  -- `ipairs` may not exist yet while a library is loaded, but this runs later.
  for _, part in ipairs(MAP_PARTS) do apply(maps.key(map, part)) end
  jobs.expire(map, seconds == '' and '' or NOW + math.ceil(tonumber(seconds)))
end

-- One JSON object with the members of several. They stay text: cjson would make objects of empty lists.
local function merge_objects(...)
  local members = {}
  for _, object in ipairs({ ... }) do
    if object ~= '{}' then members[#members + 1] = string.sub(object, 2, -2) end
  end
  return '{' .. table.concat(members, ',') .. '}'
end

local function begin_line(map, number)
  local line = cjson.decode(redis.call('HGET', maps.key(map, 'lines'), number))
  local record, fields, spec, seconds, digest, carried, hashes =
    read(maps.key(map), 'job', 'agent', 'spec', 'seconds', 'definitions', 'carried', 'documents')
  local job, root, further = unpack(line.attempts[redis.call('HINCRBY', maps.key(map, 'tried'), number, 1)])
  record, fields = cjson.decode(record), cjson.decode(fields)
  record.title, record.map, record.map_line = line.label, map, number
  fields.label = fields.definition .. ': ' .. line.label
  fields.spec = merge_objects(spec, line.own, further, cjson.encode({ job_id = job, agent_id = root }))
  redis.call('ZADD', maps.key(map, 'running'), number, job)
  for _, hash in ipairs(cjson.decode(hashes)) do documents.refer(job, hash, '') end
  submit.begin_job(job, root, record, fields, seconds, digest, carried)
end

-- Begin the next lines while there is room; returns their number. Ends the map if nothing runs any more.
function maps.begin_lines(map)
  local state, most, budget, cost, seconds, total, fresh =
    read(maps.key(map), 'state', 'max_running', 'budget', 'cost', 'retention', 'total', 'fresh')
  local begun, running = 0, redis.call('ZCARD', maps.key(map, 'running'))
  if state == 'running' and room.lack() then
    redis.call('SADD', P .. ':maps:waiting', map)
    return 0
  end
  while state == 'running' and running < tonumber(most) and begun < LINES_AT_ONCE do
    local unbegun = total - fresh + 1
    local left = unbegun + redis.call('LLEN', maps.key(map, 'waiting'))
    if left > 0 and budget ~= '' and count(cost) >= tonumber(budget) then
      state = 'stopped'
      redis.call('HSET', maps.key(map), 'state', state)
    elseif left == 0 then
      break
    else
      begin_line(map, unbegun > 0 and fresh or redis.call('LPOP', maps.key(map, 'waiting')))
      if unbegun > 0 then fresh = redis.call('HINCRBY', maps.key(map), 'fresh', 1) end
      begun, running = begun + 1, running + 1
    end
  end
  if running == 0 and redis.call('HGET', maps.key(map), 'ended') == '' then
    if state == 'running' then state = 'completed' end
    redis.call('HSET', maps.key(map), 'state', state, 'ended', NOW)
    redis.call('XADD', maps.key(map, 'results'), '*', 'kind', 'end', 'state', state)
    maps.keep(map, seconds)
  end
  return begun
end

-- Continue a map after its end.
function maps.reopen(map)
  redis.call('HSET', maps.key(map), 'state', 'running', 'ended', '')
  maps.keep(map, '')
end

-- Store the result of a line whose job has ended, and continue the map. Once per job, however often it ends.
local function end_line(map, job, root)
  if redis.call('ZREM', maps.key(map, 'running'), job) == 0 then return end
  local number = job_field(job, 'map_line')
  local state, text, reason, data, stopped_at, created = fields(root, 'state', 'text', 'reason', 'data', 'stopped_at', 'created')
  local tokens, cost, unpriced = 0, count(job_field(job, 'cost')), count(job_field(job, 'unpriced'))
  for _, name in ipairs({ 'input', 'output', 'cache_write', 'cache_read' }) do tokens = tokens + count(job_field(job, name)) end
  add(maps.key(map), 'cost', cost)
  add(maps.key(map), 'tokens', tokens)
  add(maps.key(map), 'unpriced', unpriced)
  local tried = tonumber(redis.call('HGET', maps.key(map, 'tried'), number))
  local again = #cjson.decode(redis.call('HGET', maps.key(map, 'lines'), number)).attempts > tried
  if again and (state == 'failed' or state == 'timed_out') then
    redis.call('RPUSH', maps.key(map, 'waiting'), number)
    add(maps.key(map), 'retried', 1)
  else
    local completed = state == 'completed'
    if not completed then redis.call('ZADD', maps.key(map, 'failed'), number, number) end
    add(maps.key(map), completed and 'completed' or 'failed', 1)
    redis.call('XADD', maps.key(map, 'results'), '*', 'kind', 'line', 'line', number, 'job', job, 'state', state, 'text', text or '',
      'reason', reason or '', 'data', data or '', 'stopped_at', stopped_at or '', 'tokens', tokens, 'cost', string.format('%.0f', cost), 'unpriced', unpriced,
      'tried', tried, 'seconds', NOW - tonumber(created or NOW))
  end
  maps.begin_lines(map)
end

at_sweep(function()
  for _ = 1, MAPS_AT_ONCE do
    local map = redis.call('SPOP', P .. ':maps:waiting')
    if not map then return end
    if redis.call('EXISTS', maps.key(map)) == 1 then maps.begin_lines(map) end
  end
end)

at_end(function(job, id)
  local root, map = job_fields(job, 'root', 'map')
  if map and root == id then end_line(map, job, id) end
end)
