-- Make children, or have some go on, and journal them in one step: a parent that crashed and spawns again finds them there already.
-- ARGV: prefix, parent, generation, number of the entry, entry, child JSON...
--   child  {id, fields...}: a new agent; or {id, resume: message body, background}: one of the parent's that goes on
-- Answers {'ok', publish} | {'limit', how many more agents the job may have} | {'depth'} | {'name', child, name taken}
--   | {'resume', child, its state or ''} | {'team', child that would need a team} | {'stale'} | {'cancelled'}
local parent = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(parent, ARGV[3], { running = true }, number, 1)
if refused then return { refused } end
local record = redis.call('HMGET', agent_key(parent), 'job', 'depth', 'name')
local job, depth = record[1], tonumber(record[2])
local limits = redis.call('HMGET', job_key(job), 'agents', 'max_agents', 'max_depth')
local names = job_key(job) .. ':names'
local children, fresh, taken = {}, 0, {}
for i = 6, #ARGV do
  local child = cjson.decode(ARGV[i])
  children[#children + 1] = child
  if child.resume then
    local known = redis.call('HMGET', agent_key(child.id), 'parent', 'state')
    if known[1] ~= parent or known[2] == 'cancelled' then return { 'resume', child.id, known[1] == parent and known[2] or '' } end
  else
    fresh = fresh + 1
    if child.teammate and redis.call('HGET', job_key(job) .. ':team', 'lead') ~= parent then return { 'team', child.id } end
    local owner = child.name and (taken[child.name] or redis.call('HGET', names, child.name))
    if owner and owner ~= child.id then return { 'name', child.id, child.name } end
    if child.name then taken[child.name] = child.id end
  end
end
if fresh > 0 and depth >= tonumber(limits[3]) then return { 'depth' } end
local room = tonumber(limits[2]) - tonumber(limits[1])
if fresh > room then return { 'limit', room } end
append(parent, number, ARGV[5])
for _, child in ipairs(children) do
  if child.resume then
    if TERMINAL[field(child.id, 'state')] then resume(child.id, job, parent) end
    redis.call('HSET', agent_key(child.id), 'background', child.background)
    -- From now on it is the next answer that its parent waits for.
    redis.call('HDEL', agent_key(child.id), 'earlier', 'earlier_reason', 'earlier_ended')
    deliver(child.id, parent, record[3] or parent, 'task', child.resume)
  elseif redis.call('EXISTS', agent_key(child.id)) == 0 then
    for name, value in pairs(child) do redis.call('HSET', agent_key(child.id), name, value) end
    redis.call('HSET', agent_key(child.id), 'job', job, 'parent', parent, 'depth', depth + 1, 'gen', 0, 'created', NOW)
    if child.name then redis.call('HSET', names, child.name, child.id) end
    redis.call('SADD', children_key(parent), child.id)
    redis.call('ZADD', job_key(job) .. ':agents', NOW, child.id)
    redis.call('HINCRBY', job_key(job), 'agents', 1)
    put_on_queue(child.id)
    emit(job, 'spawned', child.id, 'parent', parent)
  end
end
return { 'ok', publish }
