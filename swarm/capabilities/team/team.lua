-- Found or dissolve a job's team; repeating a cause returns the first answer and changes nothing.
--   request  JSON {agent, cause, ...}
--     create  name, description
--     delete  repeated until the answer is not 'more'; force: stop also teammates at work; reason: the stopped agents' reason
-- Returns {'ok', publish, JSON, kill}: create {name}, delete {name, stopped: 'NAME, NAME'} | {'more', publish, kill}
--   | {'refused', why, JSON}: 'exists' {name, lead?}, no lead: it is the agent itself; 'missing'; 'led' {name, lead}; 'busy' {names}
--     | 'not live'

-- Begin to dissolve a team; returns its members at work, if they forbid it.
local function begin_to_dissolve(job, lead, force)
  local members, busy, names = {}, {}, {}
  for _, child in ipairs(redis.call('SMEMBERS', children_key(lead))) do
    local state, teammate, idle, name = fields(child, 'state', 'teammate', 'idle', 'name')
    if teammate == '1' and not TERMINAL[state] then
      members[#members + 1] = child
      names[#names + 1] = name or child
      if idle ~= '1' then busy[#busy + 1] = name or child end
    end
  end
  table.sort(busy); table.sort(names)
  if #busy > 0 and not force then return busy end
  for _, child in ipairs(members) do redis.call('SADD', job_key(job, 'team:leaving'), child) end
  redis.call('HSET', job_key(job, 'team'), 'leaving', table.concat(names, ', '))
end

step('team', function(job, operation, request)
  local given = cjson.decode(request)
  local agent, cause = given.agent, given.cause
  local early = causes.answered(job, agent, cause)
  if early then return early end
  local team = job_key(job, 'team')
  local name, lead = read(team, 'name', 'lead')

  if operation == 'create' then
    if name then return causes.refuse('exists', { name = name, lead = lead ~= agent and agents.name_of(lead) or nil }) end
    redis.call('HSET', team, 'name', given.name, 'description', given.description, 'lead', agent, 'created', NOW)
    emit(job, 'team', agent, 'change', 'founded', 'name', given.name)
    return causes.answer(job, cause, { name = given.name })
  end

  if not name then return causes.refuse('missing') end
  if lead ~= agent then return causes.refuse('led', { name = name, lead = agents.name_of(lead) }) end
  if redis.call('HEXISTS', team, 'leaving') == 0 then
    local busy = begin_to_dissolve(job, agent, given.force)
    if busy then return causes.refuse('busy', { names = busy }) end
  end
  for _, child in ipairs(redis.call('SPOP', job_key(job, 'team:leaving'), AT_ONCE / 2)) do
    -- The lead learns it from this step's answer, so it gets no notice.
    redis.call('HDEL', agent_key(child), 'background')
    endings.end_agent(child, 'cancelled', '', given.reason, true)
  end
  if redis.call('EXISTS', job_key(job, 'team:leaving')) == 1 then return { 'more', publish, kill } end
  local stopped = redis.call('HGET', team, 'leaving')
  redis.call('DEL', team)
  emit(job, 'team', agent, 'change', 'dissolved', 'name', name)
  return causes.answer(job, cause, { name = name, stopped = stopped })
end)
