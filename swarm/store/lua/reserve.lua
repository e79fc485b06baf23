-- Set tokens and money of the job aside before a model call; what was really used is settled when the reply is appended.
-- A reservation left by a generation that died is given back first.
-- Returns {'ok', share of the tightest limit used, 0..1} | {'limit', name, limit, used} | {'stale'} | {'cancelled'}
step('reserve', function(id, gen, tokens, cost)
  local refused = refusal(id, gen, {})
  if refused then return { refused } end
  local job = field(id, 'job')
  give_back(id, job)
  local max_tokens, max_cost, reserved_tokens, reserved_cost, input, output, cache_write, cache_read, spent =
    job_fields(job, 'max_tokens', 'max_cost', 'reserved_tokens', 'reserved_cost', 'input', 'output', 'cache_write', 'cache_read', 'cost')
  local share, used = 0, count(input) + count(output) + count(cache_write) + count(cache_read)
  if max_tokens then
    if used + count(reserved_tokens) + tonumber(tokens) > tonumber(max_tokens) then
      return { 'limit', 'tokens', max_tokens, tostring(used) }
    end
    share = math.max(share, used / tonumber(max_tokens))
  end
  spent = count(spent)
  if max_cost then
    if spent + count(reserved_cost) + tonumber(cost) > tonumber(max_cost) then
      return { 'limit', 'budget', max_cost, tostring(spent) }
    end
    share = math.max(share, spent / tonumber(max_cost))
  end
  redis.call('HINCRBY', job_key(job), 'reserved_tokens', tokens)
  redis.call('HINCRBY', job_key(job), 'reserved_cost', cost)
  redis.call('HSET', agent_key(id), 'reserved_tokens', tokens, 'reserved_cost', cost)
  return { 'ok', tostring(share) }
end)
