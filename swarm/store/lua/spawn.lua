-- Start or continue children, and journal that in one step: a parent that crashed and spawns again finds them already made.
--   closing_tokens, closing_cost  kept from now on for the parent's last reply
--   documents  JSON each: {id, fields...}: a new agent, with its request `prefix` if it may have to wait for another one's first
--     reply (sharing_common.lua), and the `allowance` that it gets, with its `allowance_max` (budgets_common.lua); or {id, resume: message body, background}: an existing child to continue
-- Returns {'ok', publish} | {'limit', remaining agents of the job} | {'children', remaining children of this agent} | {'depth'} | {'full'}: Redis is near its limit | {'name', child, name taken}
--   | {'resume', child, its state or ''} | {'team', child that would need a team} | {'repeat'} | {'stale'} | {'cancelled'}

-- Children of one agent; some steps check all of them, which takes 6 to 15 ms for this many.
local MOST_CHILDREN = 2000

step('spawn', function(parent, gen, number, entry, closing_tokens, closing_cost, documents)
  number = tonumber(number)
  local refused = agents.refusal(parent, gen, { running = true }, number, 1)
  if refused then return { refused } end
  local job, depth = fields(parent, 'job', 'depth')
  local made, max_agents, max_depth = job_fields(job, 'agents', 'max_agents', 'max_depth')
  local names = job_key(job, 'names')
  local children, fresh, taken, made_now, places = {}, 0, {}, {}, {}
  for i, document in ipairs(documents) do
    local child = cjson.decode(document)
    children[i] = child
    if child.resume then
      local owner, state, stopped_by = fields(child.id, 'parent', 'state', 'stopped_by')
      local closed = state == 'cancelled' and stopped_by == parent
      if owner == parent and not TERMINAL[state] and is_doomed(child.id) then state = 'cancelled' end
      if owner ~= parent or (state == 'cancelled' and not closed) then return { 'resume', child.id, owner == parent and state or '' } end
      if agents.is_worn_out(child.id, job) then return { 'resume', child.id, 'worn out' } end
    else
      -- Limits do not apply to agents that the runtime starts for an agent.
      if not child.helper then fresh = fresh + 1 end
      if child.teammate and redis.call('HGET', job_key(job, 'team'), 'lead') ~= parent then return { 'team', child.id } end
      local owner = child.name and (taken[child.name] or redis.call('HGET', names, child.name))
      if owner and owner ~= child.id then return { 'name', child.id, child.name } end
      if child.name then taken[child.name] = child.id end
    end
  end
  if fresh > 0 and tonumber(depth) >= tonumber(max_depth) then return { 'depth' } end
  if fresh > 0 and room.lack() then return { 'full' } end
  local free = tonumber(max_agents) - tonumber(made)
  -- Including agents started by the runtime, there may already be more than the limit.
  if fresh > 0 and fresh > free then return { 'limit', math.max(free, 0) } end
  local left = MOST_CHILDREN - redis.call('SCARD', children_key(parent))
  if fresh > left then return { 'children', left } end
  agents.append(parent, job, number, entry)
  budgets.keep_closing(parent, job, tonumber(closing_tokens), tonumber(closing_cost))
  local began = era(job)
  for i, child in ipairs(children) do
    if child.resume then
      if TERMINAL[field(child.id, 'state')] then endings.resume(child.id, job, parent) end
      redis.call('HSET', agent_key(child.id), 'background', child.background)
      -- The parent now waits for the next answer.
      redis.call('HDEL', agent_key(child.id), 'earlier', 'earlier_reason', 'earlier_ended')
      agents.deliver(child.id, parent, agents.name_of(parent), 'task', child.resume)
    elseif redis.call('EXISTS', agent_key(child.id)) == 0 then
      local prefix, allowances = child.prefix, budgets.allow(parent, job, child.allowance, child.allowance_max)
      child.prefix, child.allowance, child.allowance_max = nil, nil, nil
      local record = { 'job', job, 'parent', parent, 'depth', tonumber(depth) + 1, 'gen', 0, 'created', NOW, 'era', began }
      if allowances ~= '' then child.allowances = allowances end
      for name, value in pairs(child) do
        record[#record + 1] = name
        record[#record + 1] = value
      end
      redis.call('HSET', agent_key(child.id), unpack(record))
      if child.name then redis.call('HSET', names, child.name, child.id) end
      made_now[#made_now + 1] = child.id
      -- Siblings keep the order of their calls.
      places[#places + 1] = NOW + i * 1e-6
      places[#places + 1] = child.id
      emit(job, 'spawned', child.id, 'parent', parent)
      if not (prefix and sharing.wait_for_first(child.id, job, prefix)) then admission.put_in_line(child.id, job) end
    end
  end
  if #made_now > 0 then
    redis.call('SADD', children_key(parent), unpack(made_now))
    redis.call('ZADD', job_key(job, 'agents'), unpack(places))
    redis.call('HINCRBY', job_key(job), 'agents', #made_now)
    tally('agents', #made_now)
    admission.line_up(job)
  end
  return { 'ok', publish }
end, { list_after = 6 })
