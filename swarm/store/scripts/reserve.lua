-- Set tokens and money of the job aside before a model call; what was really used is settled when the reply is appended.
-- A reservation left by a generation that died is given back first.
-- ARGV: prefix, agent, generation, tokens, cost
-- Answers {'ok', share of the tightest limit used, 0..1} | {'limit', name, limit, used} | {'stale'} | {'cancelled'}
local id = ARGV[2]
local refused = refusal(id, ARGV[3], {})
if refused then return { refused } end
local job = field(id, 'job')
give_back(id, job)
local record = redis.call('HMGET', job_key(job), 'max_tokens', 'max_cost', 'reserved_tokens', 'reserved_cost',
  'input', 'output', 'cache_write', 'cache_read', 'cost')
local function number(i) return tonumber(record[i] or '0') end
local share = 0
local tokens = number(5) + number(6) + number(7) + number(8)
if record[1] then
  if tokens + number(3) + tonumber(ARGV[4]) > number(1) then return { 'limit', 'tokens', record[1], tostring(tokens) } end
  share = math.max(share, tokens / number(1))
end
if record[2] then
  if number(9) + number(4) + tonumber(ARGV[5]) > number(2) then
    return { 'limit', 'budget', record[2], tostring(number(9)) }
  end
  share = math.max(share, number(9) / number(2))
end
redis.call('HINCRBY', job_key(job), 'reserved_tokens', ARGV[4])
redis.call('HINCRBY', job_key(job), 'reserved_cost', ARGV[5])
redis.call('HSET', agent_key(id), 'reserved_tokens', ARGV[4], 'reserved_cost', ARGV[5])
return { 'ok', tostring(share) }
