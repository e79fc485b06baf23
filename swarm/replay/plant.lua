-- Import a job, or branch one from another job's history. Parts come first, in any number of steps, and the job's record last,
-- so no reader sees half a job. Unfinished imports expire.

local UNFINISHED_SECONDS = 86400

local function planted(key) redis.call('EXPIRE', key, UNFINISHED_SECONDS) end

local function plant_part(job, given)
  local key = job_key(job, given.part)
  for name, record in pairs(given.records or {}) do redis.call('HSET', key, name, cjson.encode(record)) end
  for name, text in pairs(given.texts or {}) do redis.call('HSET', key, name, text) end
  for _, member in ipairs(given.members or {}) do redis.call('SADD', key, member) end
  for member, score in pairs(given.scores or {}) do redis.call('ZADD', key, score, member) end
  if given.text then
    redis.call('SET', key, given.text)
    keep_with_job(job, key)
    planted(job_key(job, 'keys'))
  end
  planted(key)
end

-- Import one part of the job; repeating it changes nothing.
--   request  JSON, depending on `what`:
--     document  digest, text
--     agent     id, parent, fields, at
--     entries   id, entries: {number, seq, document}...
--     mail      id, messages: {id, fields}...
--     output    id, key, text, bytes, address: see keep_output.lua
--     events    messages: {id, fields}...
--     shared    part: the end of the key; records (by field, kept as JSON), texts (by field), members, scores (by member) or text
-- Returns {'ok'} | {'exists'}: a job with this id exists, or another job has an agent with that id
step('import_past', function(job, what, request)
  if redis.call('EXISTS', job_key(job)) == 1 then return { 'exists' } end
  local given = cjson.decode(request)
  local owner = given.id and given.id ~= '' and field(given.id, 'job')
  if owner and owner ~= job then return { 'exists' } end
  if what == 'document' then
    documents.refer(job, given.digest, given.text)
  elseif what == 'agent' then
    local key = agent_key(given.id)
    for name, value in pairs(given.fields) do redis.call('HSET', key, name, value) end
    redis.call('HSET', key, 'job', job, 'parent', given.parent)
    redis.call('ZADD', job_key(job, 'agents'), given.at, given.id)
    planted(key); planted(job_key(job, 'agents'))
    if given.parent ~= '' then
      redis.call('SADD', children_key(given.parent), given.id)
      planted(children_key(given.parent))
    end
  elseif what == 'entries' then
    local have = agents.journal_length(given.id)
    for _, entry in ipairs(given.entries) do
      if tonumber(entry[1]) > have then
        redis.call('XADD', journal_key(given.id), string.format('%d-0', entry[1]), 'e', entry[3], 'seq', string.format('%d', entry[2]))
        redis.call('HSET', agent_key(given.id), 'length', string.format('%d', entry[1]))
      end
    end
    -- Spans and figures belong to the job in which the entries were written.
    local done = field(given.id, 'length')
    redis.call('HSET', job_key(job, 'telemetry'), 'counted:' .. given.id, done, 'told:' .. given.id, done)
    planted(journal_key(given.id)); planted(job_key(job, 'telemetry'))
  elseif what == 'mail' or what == 'events' then
    local key = what == 'mail' and P .. ':mail:' .. given.id or P .. ':events:' .. job
    for _, message in ipairs(given.messages) do
      local flat = {}
      for name, value in pairs(message[2]) do flat[#flat + 1] = name; flat[#flat + 1] = value end
      -- XADD refuses an existing entry for its id.
      redis.pcall('XADD', key, message[1], unpack(flat))
    end
    planted(key)
  elseif what == 'shared' then
    plant_part(job, given)
  elseif what == 'output' then
    outputs.plant(given.id, given.key, given.text, given.bytes, given.address)
    for _, key in ipairs(outputs.keys(given.id)) do planted(key) end
  end
  return { 'ok' }
end)

-- Create the job from its imported parts.
--   request  JSON {fields, names, seq, queue: agents that continue, team: fields or nil}; with an empty queue, the job counts as ended
-- Returns {'ok', publish} | {'exists', publish}
step('plant_job', function(job, request)
  if redis.call('EXISTS', job_key(job)) == 1 then return { 'exists', publish } end
  local given = cjson.decode(request)
  for name, value in pairs(given.fields) do redis.call('HSET', job_key(job), name, value) end
  keep_with_job(job, job_key(job, 'telemetry'))
  redis.call('HSET', job_key(job), 'created', NOW, 'agents', redis.call('ZCARD', job_key(job, 'agents')))
  redis.call('SET', job_key(job, 'seq'), string.format('%d', given.seq))
  for name, id in pairs(given.names) do redis.call('HSET', job_key(job, 'names'), name, id) end
  if given.team then
    for name, value in pairs(given.team) do redis.call('HSET', job_key(job, 'team'), name, value) end
  end
  jobs.set_state(job, #given.queue > 0 and 'running' or given.fields.state)
  tally('jobs')
  if #given.queue == 0 then
    endings.keep(job, NOW + jobs.retention(job, given.fields.state))
    archive.plan(job)
    return { 'ok', publish }
  end
  endings.keep(job)
  local seconds = job_field(job, 'seconds')
  if seconds then agents.set_deadline(job, tonumber(seconds)) end
  emit(job, 'job_started', job_field(job, 'root'))
  for _, id in ipairs(redis.call('ZRANGE', job_key(job, 'agents'), 0, -1)) do
    if field(id, 'idle') == '1' then redis.call('ZADD', job_key(job, 'team:idle'), NOW, id) end
  end
  for _, id in ipairs(given.queue) do admission.put_on_queue(id) end
  return { 'ok', publish }
end)
