-- Note that a person wants an agent's conversation summarized, before its next request.
--   wanted  JSON {id, focus}; a later one takes its place
-- Returns {'ok', state} | {'unknown'} | {'cancelled'}
step('want_summary', function(id, wanted)
  local state = field(id, 'state')
  if not state then return { 'unknown' } end
  if state == 'cancelled' then return { 'cancelled' } end
  redis.call('HSET', agent_key(id), 'wanted_summary', wanted)
  return { 'ok', state }
end)
