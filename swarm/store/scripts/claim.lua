-- Take the right to run an agent's segment: queued -> running, generation + 1, a lease.
-- ARGV: prefix, agent, worker, lease seconds, token (tells a repeated request from another claim)
-- Answers {'ok', generation, spec, job deadline or '', unread messages, journal's length} | {'refused', state} | {'capped'} | {'unknown'}
local id = ARGV[2]
local record = redis.call('HMGET', agent_key(id), 'state', 'job', 'depth', 'spec', 'started', 'claim', 'gen', 'unread',
  'length')
local state, job = record[1], record[2]
if not state then return { 'unknown' } end
if state == 'running' and record[6] == ARGV[5] then
  return { 'ok', tonumber(record[7]), record[4], redis.call('HGET', job_key(job), 'deadline') or '',
    tonumber(record[8] or '0'), tonumber(record[9] or '0') }
end
if state ~= 'queued' then return { 'refused', state } end
local limits = redis.call('HMGET', job_key(job), 'max_running', 'deadline')
-- The first write must be one that a Redis without memory refuses: a segment that cannot be stored must not begin.
redis.call('HSET', agent_key(id), 'claim', ARGV[5])
redis.call('ZREM', P .. ':ready', id)
if redis.call('SCARD', job_key(job) .. ':running') >= tonumber(limits[1] or '1000000') then
  -- Its place comes when another agent of the job leaves; deeper agents first, so that trees finish.
  redis.call('ZADD', job_key(job) .. ':capped', (64 - tonumber(record[3])) * 1e10 + NOW, id)
  return { 'capped' }
end
redis.call('ZREM', job_key(job) .. ':capped', id)
redis.call('SADD', job_key(job) .. ':running', id)
local gen = redis.call('HINCRBY', agent_key(id), 'gen', 1)
redis.call('HSET', agent_key(id), 'state', 'running', 'worker', ARGV[3])
redis.call('HDEL', agent_key(id), 'yielded')
if not record[5] then redis.call('HSET', agent_key(id), 'started', NOW) end
redis.call('ZADD', P .. ':leases', NOW + tonumber(ARGV[4]), id)
emit(job, 'running', id, 'worker', ARGV[3], 'gen', gen)
return { 'ok', gen, record[4], limits[2] or '', tonumber(record[8] or '0'), tonumber(record[9] or '0') }
