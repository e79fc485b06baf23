-- Keep an output of a running agent that is too long for its conversation; it expires with all keys of the agent.
-- Returns {'ok'} | {'cancelled'} | {'stale'}
step('keep_output', function(id, gen, key, text)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  redis.call('HSET', P .. ':outputs:' .. id, key, text)
  return { 'ok' }
end)
