-- Make children and journal them in one step: a parent that crashed and spawns again finds them there already.
-- ARGV: prefix, parent, generation, number of the entry, entry, child JSON {id, fields...}...
-- Answers {'ok', publish} | {'limit', how many more agents the job may have} | {'depth'} | {'stale'} | {'cancelled'}
local parent = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(parent, ARGV[3], { running = true }, number, 1)
if refused then return { refused } end
local record = redis.call('HMGET', agent_key(parent), 'job', 'depth')
local job, depth = record[1], tonumber(record[2])
local limits = redis.call('HMGET', job_key(job), 'agents', 'max_agents', 'max_depth')
if depth >= tonumber(limits[3]) then return { 'depth' } end
local room = tonumber(limits[2]) - tonumber(limits[1])
if #ARGV - 5 > room then return { 'limit', room } end
append(parent, number, ARGV[5])
for i = 6, #ARGV do
  local child = cjson.decode(ARGV[i])
  if redis.call('EXISTS', agent_key(child.id)) == 0 then
    for name, value in pairs(child) do redis.call('HSET', agent_key(child.id), name, value) end
    redis.call('HSET', agent_key(child.id), 'job', job, 'parent', parent, 'depth', depth + 1, 'gen', 0, 'created', NOW)
    redis.call('SADD', children_key(parent), child.id)
    redis.call('ZADD', job_key(job) .. ':agents', NOW, child.id)
    redis.call('HINCRBY', job_key(job), 'agents', 1)
    put_on_queue(child.id)
    emit(job, 'spawned', child.id, 'parent', parent)
  end
end
return { 'ok', publish }
