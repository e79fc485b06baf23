-- Take the right to run an agent's segment: queued -> running, generation + 1, a lease.
--   token  distinguishes a repeated request from another claim
--   told   the message's data on the agent {job, parent or '', depth, definition, the job's max depth}, or nothing: already checked
-- Returns {'ok', generation, spec, job deadline or '', unread messages, journal's length, the server's time, the digest of the job's
--   definitions or '', the job's permissions (rules, seconds for questions, rules added since), start of
--   its first segment, the prefix that its first reply opens for others or '',
--   JSON {name: digest} of the job's other documents, or '', its slot as JSON or '', the summary that a person wants as JSON or '',
--   its needs as JSON if they have an older format than this library, or '', the model that a person wants as JSON if any}
--   | {'refused', state} | {'capped'}
--   | {'unknown'} | {'wants'}: check its needs first | {'contradicted'}: the record differs from the message; nothing was claimed

-- Whether an agent with these wants has an older format than this library.
local function is_older(wants)
  return FORMAT > 1 and not string.find(' ' .. wants .. ' ', ' format:' .. FORMAT .. ' ', 1, true)
end

local function granted(id, job, gen, spec, unread, length, started)
  local deadline, definitions, rules, seconds, carried = job_fields(job, 'deadline', 'definitions', 'rules', 'ask_seconds', 'carried')
  local opens, wanted, wants, chosen = fields(id, 'opens', 'wanted_summary', 'wants', 'wanted_model')
  return { 'ok', tonumber(gen), spec, deadline or '', count(unread), count(length), string.format('%.6f', NOW), definitions or '',
    rules or '', seconds or '0', redis.call('LRANGE', job_key(job, 'rules'), 0, -1), tostring(started or NOW),
    opens or '', carried or '', governor.slot_of(id), wanted or '',
    is_older(wants or '') and field(id, 'needs') or '', chosen }
end

local function contradicts(id, told)
  local record = redis.call('HMGET', agent_key(id), 'job', 'parent', 'depth', 'definition')
  record[5] = record[1] and job_field(record[1], 'max_depth')
  for i = 1, 5 do
    if record[i] ~= told[i] then return true end
  end
  return false
end

-- Whether the caller must compare these wants with its offers. It reads the formats up to its library's.
local function is_to_check(wants)
  for want in string.gmatch(wants, '%S+') do
    local number = string.match(want, '^format:(%d+)$')
    if not number or tonumber(number) > FORMAT then return true end
  end
  return false
end

step('claim', function(id, worker, lease_seconds, token, told)
  local state, job, spec, started, claim, gen, unread, length, queued, waited, wants =
    fields(id, 'state', 'job', 'spec', 'started', 'claim', 'gen', 'unread', 'length', 'queued', 'waited', 'wants')
  if not state then return { 'unknown' } end
  if told[1] and contradicts(id, told) then return { 'contradicted' } end
  if told[1] and is_to_check(wants or '') then return { 'wants' } end
  if state == 'running' and claim == token then return granted(id, job, gen, spec, unread, length, started) end
  if state ~= 'queued' then return { 'refused', state } end
  if is_doomed(id) then return { 'refused', 'cancelled' } end
  admission.leave_queue(id, job)
  local most = job_field(job, 'max_running')
  if redis.call('SCARD', job_key(job, 'running')) >= tonumber(most or '1000000') then
    -- The agent gets a place when another agent of the job leaves.
    redis.call('ZADD', job_key(job, 'line'), admission.rank(id), id)
    return { 'capped' }
  end
  redis.call('SADD', job_key(job, 'running'), id)
  gen = redis.call('HINCRBY', agent_key(id), 'gen', 1)
  redis.call('HSET', agent_key(id), 'state', 'running', 'worker', worker, 'claim', token,
    'waited', count(waited) + NOW - (queued or NOW))
  redis.call('HDEL', agent_key(id), 'yielded', 'asides')
  if not started then redis.call('HSET', agent_key(id), 'started', NOW) end
  redis.call('ZADD', P .. ':leases', NOW + tonumber(lease_seconds), id)
  if redis.call('EXISTS', job_key(job, 'line')) == 1 then admission.line_up(job) end
  -- The answer has no `publish`, so no agent may be called here.
  moved = false
  emit(job, 'running', id, 'worker', worker, 'gen', gen)
  return granted(id, job, gen, spec, unread, length, started)
end, { when_full = true, list_after = 4 })
