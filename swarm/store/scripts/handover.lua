-- Put a running agent back on the queue at a turn boundary: its worker is going away, or others want the process.
-- It costs no attempt.
-- ARGV: prefix, agent, generation, why, '1' if it goes to the end of the line
local id = ARGV[2]
local refused = refusal(id, ARGV[3], { queued = true })
if refused then return { refused } end
local job = field(id, 'job')
leave(id, job)
if ARGV[5] == '1' then redis.call('HSET', agent_key(id), 'yielded', '1') end
put_on_queue(id)
emit(job, 'handed_over', id, 'why', ARGV[4])
return { 'ok', publish }
