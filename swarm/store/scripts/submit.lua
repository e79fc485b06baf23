-- Make a job and its queued root agent, once: submitting the same ids again changes nothing.
-- ARGV: prefix, job, root agent, job JSON {fields...}, agent JSON {fields...}, deadline seconds from now or ''
local job, root = ARGV[2], ARGV[3]
if redis.call('EXISTS', job_key(job)) == 1 then return { 'exists', publish } end
for name, value in pairs(cjson.decode(ARGV[4])) do redis.call('HSET', job_key(job), name, value) end
redis.call('HSET', job_key(job), 'state', 'running', 'root', root, 'created', NOW, 'agents', 1)
for name, value in pairs(cjson.decode(ARGV[5])) do redis.call('HSET', agent_key(root), name, value) end
redis.call('HSET', agent_key(root), 'job', job, 'parent', '', 'depth', 0, 'gen', 0, 'created', NOW)
redis.call('ZADD', P .. ':jobs', NOW, job)
redis.call('ZADD', job_key(job) .. ':agents', NOW, root)
if ARGV[6] ~= '' then
  redis.call('HSET', job_key(job), 'deadline', NOW + tonumber(ARGV[6]))
  redis.call('ZADD', P .. ':deadlines', NOW + tonumber(ARGV[6]), job)
end
redis.call('HSET', job_key(job) .. ':names', 'root', root)
put_on_queue(root)
emit(job, 'job_started', root)
return { 'ok', publish }
