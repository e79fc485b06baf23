-- What a wake-up says of each of these agents; changes nothing.
-- ARGV: prefix, agent...
-- Answers one {state, job, parent, depth, generation, whether it yielded its turn, definition, label, the job's max depth} for each; nothing known is nil
local found = {}
for i = 2, #ARGV do
  local record = redis.call('HMGET', agent_key(ARGV[i]), 'state', 'job', 'parent', 'depth', 'gen', 'yielded', 'definition',
    'label')
  record[9] = record[2] and redis.call('HGET', job_key(record[2]), 'max_depth')
  found[#found + 1] = record
end
return found
