-- Found or dissolve a job's team; the same cause again answers the same and does nothing.
-- ARGV: prefix, job, 'create' | 'delete', JSON {agent, cause, ...}
--   create  name, description
--   delete  force: stop also teammates that are at work
-- Answers {'ok', publish, JSON, kill}: create {name}, delete {name, stopped: 'NAME, NAME'} | {'refused', why}
local job, operation, given = ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local agent, cause = given.agent, given.cause
local early = answered(job, agent, cause)
if early then return early end

local team = job_key(job) .. ':team'
local known = redis.call('HMGET', team, 'name', 'lead')

if operation == 'create' then
  if known[1] then
    return { 'refused', string.format('the job has a team already, %s, led by %s: a job has one team at a time', known[1],
      known[2] == agent and 'you' or name_of(known[2])) }
  end
  redis.call('HSET', team, 'name', given.name, 'description', given.description, 'lead', agent, 'created', NOW)
  emit(job, 'team', agent, 'change', 'founded', 'name', given.name)
  return answer(job, cause, { name = given.name })
end

if not known[1] then return { 'refused', 'the job has no team' } end
if known[2] ~= agent then return { 'refused', string.format('the team %s is led by %s, not by you', known[1], name_of(known[2])) } end
local members, busy, names = {}, {}, {}
for _, child in ipairs(redis.call('SMEMBERS', children_key(agent))) do
  local record = redis.call('HMGET', agent_key(child), 'state', 'teammate', 'idle')
  if record[2] == '1' and not TERMINAL[record[1]] then
    members[#members + 1] = child
    names[#names + 1] = name_of(child)
    if record[3] ~= '1' then busy[#busy + 1] = name_of(child) end
  end
end
table.sort(busy); table.sort(names)
if #busy > 0 and not given.force then
  return { 'refused', string.format('%s still at work: ask for a shutdown first, or stop them with force', table.concat(busy, ', ')
    .. (#busy == 1 and ' is' or ' are')) }
end
redis.call('DEL', team)
for _, child in ipairs(members) do
  -- The lead has it from this step's answer: no notice besides.
  redis.call('HDEL', agent_key(child), 'background')
  end_agent(child, 'cancelled', '', 'its team was dissolved', true)
end
emit(job, 'team', agent, 'change', 'dissolved', 'name', known[1])
return answer(job, cause, { name = known[1], stopped = table.concat(names, ', ') })
