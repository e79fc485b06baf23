-- Keep an output of a running agent that is too long for its conversation; it expires with all keys of the agent.
--   text, bytes, address  the text and its size; of a large one not the text, but its object: 'JOB/DIGEST'
--   most, most_of_job     bytes of all outputs of the agent, and of its job
-- Returns {'ok', dropped keys, addresses of objects to delete} | {'over', 'agent' | 'job' | 'Redis', bound in bytes}: it was not kept
--   | {'cancelled'} | {'stale'}
step('keep_output', function(id, gen, key, text, bytes, address, most, most_of_job)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  local lack = address == '' and room.lack()
  if lack then return { 'over', 'Redis', lack[2] } end
  return outputs.keep(id, field(id, 'job'), key, text, tonumber(bytes), address, tonumber(most), tonumber(most_of_job))
end)
