-- Record a person's request to summarize an agent's conversation before its next model request.
--   wanted  JSON {id, focus}; a later one replaces it
-- Returns {'ok', state} | {'unknown'} | {'cancelled'}
step('want_summary', function(id, wanted)
  local state = field(id, 'state')
  if not state then return { 'unknown' } end
  if state == 'cancelled' then return { 'cancelled' } end
  redis.call('HSET', agent_key(id), 'wanted_summary', wanted)
  return { 'ok', state }
end)
